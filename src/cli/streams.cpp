#include "cli/streams.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/format.h"

namespace strata::cli {
namespace {

constexpr size_t kReadBytes = 64 * kKiB;
constexpr size_t kMaxPathBytes = 400;

std::string reason(int error) { return std::generic_category().message(error); }

// Hands out what `fd` gives, block by block, to its end; `name` is for messages.
Status read_fd(int fd, const std::string& name, uint64_t max_bytes, const BlockSink& sink) {
  std::vector<char> block(kReadBytes);
  for (uint64_t size = 0;;) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const ErrorCode code = errno == EISDIR ? ErrorCode::kBadInput : ErrorCode::kIo;
      return Error{code, format("cannot read {}: {}", name, reason(errno))};
    }
    if (n == 0) return {};
    size += static_cast<uint64_t>(n);
    if (size > max_bytes) {
      return Error{ErrorCode::kBadInput,
                   format("{} is longer than the {} that are taken", name, format_bytes(max_bytes))};
    }
    RETURN_IF_ERROR(sink({block.data(), static_cast<size_t>(n)}));
  }
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) return Error{ErrorCode::kCancelled, ""};
    if (n < 0) return Error{ErrorCode::kIo, format("cannot write to standard output: {}", reason(errno))};
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Status prepare_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // Open for the other direction: using it fails as if it were closed. open() gives the lowest free number, this one.
    static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a failed write, with a message
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return {};
  return Error{ErrorCode::kIo, "standard output is closed or can't be written; let it go to a terminal, file or pipe"};
}

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

Status write_stdout(std::string_view bytes) { return write_all(STDOUT_FILENO, bytes); }

void write_stderr(std::string_view bytes) { static_cast<void>(write_all(STDERR_FILENO, bytes)); }

std::string path_text(const std::string& path) { return printable(path, kMaxPathBytes); }

Status check_is_file(const std::string& path, const char* what) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return Error{ErrorCode::kBadInput, format("{} {}: this exists and is not a file", what, path_text(path))};
}

std::string input_text(const std::string& path) { return path == "-" ? "standard input" : path_text(path); }

Status read_blocks(const std::string& path, uint64_t max_bytes, const BlockSink& sink) {
  const std::string name = input_text(path);
  if (path == "-") return read_fd(STDIN_FILENO, name, max_bytes, sink);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, format("cannot open {}: {}", name, reason(errno))};
  }
  const Status status = read_fd(fd, name, max_bytes, sink);
  ::close(fd);
  return status;
}

Result<std::string> read_text(const std::string& path, uint64_t max_bytes) {
  std::string text;
  RETURN_IF_ERROR(read_blocks(path, max_bytes, [&](std::string_view block) -> Status {
    text += block;
    return {};
  }));
  return text;
}

Result<std::string> read_stdin(uint64_t max_bytes) { return read_text("-", max_bytes); }

}  // namespace strata::cli
