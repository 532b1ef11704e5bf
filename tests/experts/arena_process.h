// arena_engine (arena_engine.cpp) as a child process.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace strata::test {

class ArenaProcess {
 public:
  // Arguments as arena_engine.cpp says.
  explicit ArenaProcess(std::vector<std::string> arguments);
  ~ArenaProcess();  // kills it if it still runs
  ArenaProcess(const ArenaProcess&) = delete;
  ArenaProcess& operator=(const ArenaProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Waits for a line that begins so, and returns it; empty, after failing the test, when the process ended without one.
  std::string line(const std::string& begin);
  // Waits until it has stopped itself.
  bool stopped();
  void send(int signal);
  // Lets it end by itself, and waits for it: its exit code, or 128 and the number of the signal that ended it.
  int finish();
  const std::vector<std::string>& lines() const { return lines_; }
  // Whether such a line has come so far.
  bool said(const std::string& begin) const;

 private:
  bool read_line();

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string rest_;
  std::vector<std::string> lines_;
  bool ended_ = false;
};

}  // namespace strata::test
