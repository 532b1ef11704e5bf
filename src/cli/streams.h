// Standard input and output, and whole text files. stdout carries answers, stderr messages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace strata::cli {

inline constexpr uint64_t kMaxTextBytes = 64 * kMiB;  // of a prompt, or a text to tokenize
inline constexpr uint64_t kMaxIdsBytes = 256 * kMiB;  // of a list of token ids

// Once, before any file is opened: closed standard streams are occupied, so that no file takes their number, and
// writing to a closed pipe becomes an error instead of a signal. kIo when stdout can't be written: whatever is computed
// for it would be lost.
Status prepare_streams();

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

// kBadInput for what exists under this name and is not a file, a pipe for one: those who talk must not be kept waiting.
// The message begins with `what`, a command.
Status check_is_file(const std::string& path, const char* what);

// Everything until the end; kBadInput for more than `max_bytes`.
Result<std::string> read_stdin(uint64_t max_bytes);
// The same for a file or pipe of this name; "-" for standard input. It waits for the writer of a named pipe, as all
// readers do.
Result<std::string> read_text(const std::string& path, uint64_t max_bytes);

// The same in blocks as they come, until `sink` fails.
using BlockSink = std::function<Status(std::string_view block)>;
Status read_blocks(const std::string& path, uint64_t max_bytes, const BlockSink& sink);

// How messages call the input of this name.
std::string input_text(const std::string& path);

}  // namespace strata::cli
