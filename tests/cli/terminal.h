// Runs the strata program on a terminal of its own, as a person does.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace strata::test {

// The program with these arguments as the leader of a terminal of 80 columns; may use all RAM. Ends it, if need be by
// force, when it dies.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& args);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Keys, as the terminal sends them.
  void type(const std::string& keys);
  // A line and Enter, once the program asks for one.
  void say(const std::string& line);
  // Reads until this text has come, and returns all that came since the last call, up to its end. Fails the test when
  // the program ends or a minute passes before.
  std::string expect(const std::string& text);
  // The program asks for a line.
  std::string expect_prompt() { return expect("> "); }
  // Another size, which the program is told of by a signal.
  void resize(int columns);
  void signal(int number);
  // Whether the kernel edits lines, as it does for programs that know nothing of keys.
  bool edits_lines() const;
  // Waits for the end: the exit code, or 128 + signal; -1 when it does not come.
  int wait();

 private:
  // False at the end of the output, or when nothing comes for a minute.
  bool read_more();

  int fd_ = -1;
  pid_t child_ = -1;
  std::string unread_;
};

}  // namespace strata::test
