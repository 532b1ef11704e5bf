// Standard input and output, and whole text files. stdout carries answers, stderr messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace strata::cli {

inline constexpr uint64_t kMaxTextBytes = 64 * kMiB;  // of a prompt, or a text to tokenize
inline constexpr uint64_t kMaxIdsBytes = 256 * kMiB;  // of a list of token ids

// Once, before any file is opened: closed standard streams are occupied, so that no file takes their number, and
// writing to a closed pipe becomes an error instead of a signal.
void prepare_streams();

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// Writes at once, unbuffered. When the reader is gone, kCancelled without a message: nobody is left to be told. kIo for
// other failures.
Status write_stdout(std::string_view bytes);
// What can't be written is lost.
void write_stderr(std::string_view bytes);

// A path as messages show it.
std::string path_text(const std::string& path);

// Whether a result may be written under this name: what exists there and is not a file, a device for one, must not be
// replaced by a file. kBadInput begins with `what`, a flag or a command.
Status check_output(const std::string& path, const char* what);

// Everything until the end; kBadInput for more than `max_bytes`.
Result<std::string> read_stdin(uint64_t max_bytes);
// The same for a file or pipe of this name; "-" for standard input.
Result<std::string> read_text(const std::string& path, uint64_t max_bytes);

}  // namespace strata::cli
