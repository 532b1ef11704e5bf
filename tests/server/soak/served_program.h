// "strata serve" as a child process, watched from outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/golden.h"

namespace strata::test {

class ServedProgram {
 public:
  // Serves the demo model on a port of its own; returns when it is ready. `flags`: more of them.
  explicit ServedProgram(const std::vector<std::string>& flags);
  ~ServedProgram();
  ServedProgram(const ServedProgram&) = delete;
  ServedProgram& operator=(const ServedProgram&) = delete;

  // 0 when it did not start.
  uint16_t port() const { return port_; }
  int64_t resident_bytes() const;
  int descriptors() const;
  // Asks it to end, and waits. Its exit code; 128 + signal where one ended it.
  int end();
  // What it has said, for messages of tests.
  std::string output() const;

 private:
  bool wait_until_ready();

  TempDir dir_;
  pid_t child_ = -1;
  uint16_t port_ = 0;
};

}  // namespace strata::test
