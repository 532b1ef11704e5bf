// What is put in order when a signal ends the process: files that are not complete, and the terminal.
#pragma once

#include <string>

#include "base/result.h"

namespace strata {

// While it lives, PATH is removed when the process is ended by end_by_signal(). Its maker creates the file afterwards,
// so that no moment is missed, under a name that nobody else uses. Any thread.
class UnfinishedFile {
 public:
  // kBadInput for a path that is too long to be opened; kNoMemory when too many are unfinished at once.
  static Result<UnfinishedFile> create(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&&) = delete;

 private:
  explicit UnfinishedFile(int slot) : slot_(slot) {}
  int slot_;  // -1 after a move
};

// `restore` is called before the end, in a signal handler; it does only what is allowed there. One at a time; nullptr
// for none.
void set_restore(void (*restore)());

// Removes the unfinished files, calls what set_restore() got, and ends the process as the signal does by default, or,
// where it does nothing (to the first process of a container), with 128 + signal. Is a signal handler, and for handlers
// that find that the end has come.
[[noreturn]] void end_by_signal(int signal);

// The same, but with an exit code: for a process that has been asked to end and waits for nothing. Any thread.
[[noreturn]] void end_with(int exit_code);

// SIGINT, SIGTERM and SIGHUP end the process through end_by_signal(); one that is ignored stays so. Once, early.
void handle_ending_signals();

}  // namespace strata
