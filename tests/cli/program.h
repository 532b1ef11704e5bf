// Runs the strata program as a child process, as a shell would.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace strata::test {

enum class Stream { kPipe, kTerminal, kClosed };

struct ProgramCall {
  std::vector<std::string> args = {};
  std::string input = {};                                        // of a pipe as stdin
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string program = STRATA_PROGRAM;
  Stream in = Stream::kPipe;
  Stream out = Stream::kPipe;
  std::string out_path = {};     // a file for stdout instead
  size_t interrupt_after = 0;    // sends one SIGINT when this many bytes have come; 0 for never
  size_t close_after = 0;        // closes the reading end of stdout then; 0 for never
  int signal = 0;                                 // sent once when this says that the time has come
  std::function<bool()> signal_when = nullptr;
};

struct Outcome {
  int exit_code = -1;  // 128 + signal when one ended it; -1 when it had to be killed for taking a minute
  std::string out;
  std::string err;
};

// The child sees no STRATA_ variables but those of the call, and may use all RAM.
Outcome call(const ProgramCall& call);
Outcome strata(const std::vector<std::string>& args, const std::string& input = "");

// Whether the program refused: this exit code, nothing on stdout, and one line "strata: ..." with `text` on stderr.
::testing::AssertionResult refused(const Outcome& outcome, int exit_code, const std::string& text);
// Whether it ended with 0 and said nothing on stderr.
::testing::AssertionResult succeeded(const Outcome& outcome);

}  // namespace strata::test
