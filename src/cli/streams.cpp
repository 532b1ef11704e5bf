#include "cli/streams.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "base/format.h"

namespace strata::cli {
namespace {

constexpr size_t kReadBytes = 64 * kKiB;
constexpr size_t kMaxPathBytes = 400;

std::string reason(int error) { return std::generic_category().message(error); }

// Reads `fd` to its end; `name` is for messages.
Result<std::string> read_all(int fd, const std::string& name, uint64_t max_bytes) {
  std::string text;
  for (;;) {
    const size_t old_size = text.size();
    text.resize(old_size + kReadBytes);
    const ssize_t n = ::read(fd, text.data() + old_size, kReadBytes);
    text.resize(old_size + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const ErrorCode code = errno == EISDIR ? ErrorCode::kBadInput : ErrorCode::kIo;
      return Error{code, format("cannot read {}: {}", name, reason(errno))};
    }
    if (n == 0) return text;
    if (text.size() > max_bytes) {
      return Error{ErrorCode::kBadInput,
                   format("{} is longer than the {} that are taken", name, format_bytes(max_bytes))};
    }
  }
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EPIPE || errno == EBADF)) return Error{ErrorCode::kCancelled, ""};
    if (n < 0) return Error{ErrorCode::kIo, format("cannot write to standard output: {}", reason(errno))};
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

void prepare_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // Open for the other direction: using it fails as if it were closed. open() gives the lowest free number, this one.
    static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a failed write, with a message
}

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

Status write_stdout(std::string_view bytes) { return write_all(STDOUT_FILENO, bytes); }

void write_stderr(std::string_view bytes) { static_cast<void>(write_all(STDERR_FILENO, bytes)); }

std::string path_text(const std::string& path) { return printable(path, kMaxPathBytes); }

Status check_output(const std::string& path, const char* what) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return Error{ErrorCode::kBadInput, format("{} {}: this exists and is not a file", what, path_text(path))};
}

Result<std::string> read_stdin(uint64_t max_bytes) { return read_all(STDIN_FILENO, "standard input", max_bytes); }

Result<std::string> read_text(const std::string& path, uint64_t max_bytes) {
  if (path == "-") return read_stdin(max_bytes);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, format("cannot open {}: {}", path_text(path), reason(errno))};
  }
  Result<std::string> text = read_all(fd, path_text(path), max_bytes);
  ::close(fd);
  return text;
}

}  // namespace strata::cli
