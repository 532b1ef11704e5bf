#include "base/output_file.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/format.h"
#include "base/mapping.h"

namespace strata {
namespace {

constexpr size_t kBufferBytes = kMiB;
constexpr size_t kMaxPathPrinted = 400;
constexpr mode_t kPermissions = 0777;

// With the slash at its end; empty for the current one.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Where `path` leads; itself when it leads nowhere yet, as the name of a new file does.
std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) == nullptr ? path : std::string(buffer);
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool is_stdout(const struct stat& file) {
  struct stat standard {};
  return ::fstat(STDOUT_FILENO, &standard) == 0 && same_file(file, standard);
}

// Not made from the name of the result, which may be as long as a name can be.
Result<std::string> random_name() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
    return Error{ErrorCode::kIo, format("the system gives no random numbers: {}", errno_text(errno))};
  }
  return format(".strata-{:016x}", bits);
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (unfinished_) ::unlink(temporary_.c_str());
}

Error OutputFile::failure(const char* what, int error) const {
  return {ErrorCode::kIo, format("cannot {} {}: {}", what, printable(path_, kMaxPathPrinted), errno_text(error))};
}

Status OutputFile::open() {
  if (path_.empty() || path_.find('\0') != std::string::npos) {
    return Error{ErrorCode::kBadInput, format("cannot write '{}': this is no path", printable(path_))};
  }
  buffer_.reserve(kBufferBytes);
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0) {
    if (errno != ENOENT) return failure("create", errno);
    return open_beside(std::nullopt);
  }
  if (S_ISDIR(found.st_mode)) {
    return Error{ErrorCode::kBadInput,
                 format("cannot write {}: this exists and is not a file", printable(path_, kMaxPathPrinted))};
  }
  // Standard output is shared, so that what is written to it later follows; by its name it would be opened anew.
  if (is_stdout(found)) return open_directly(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  if (!S_ISREG(found.st_mode)) return open_directly(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  return open_beside(found.st_mode & kPermissions);
}

Status OutputFile::open_directly(int fd) {
  fd_ = fd;
  return fd_ < 0 ? Status(failure("open", errno)) : Status();
}

Status OutputFile::open_beside(std::optional<unsigned> mode) {
  ASSIGN_OR_RETURN(const std::string name, random_name());
  target_ = resolved(path_);
  temporary_ = folder_of(target_) + name;
  ASSIGN_OR_RETURN(UnfinishedFile unfinished, UnfinishedFile::create(temporary_));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode.value_or(0666));
  if (fd_ < 0) return failure("create", errno);
  unfinished_.emplace(std::move(unfinished));
  // The umask has taken bits away that the old file has.
  if (mode && ::fchmod(fd_, static_cast<mode_t>(*mode)) != 0) return failure("set the permissions of", errno);
  return {};
}

Status OutputFile::append(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) RETURN_IF_ERROR(flush());
  if (bytes.size() > kBufferBytes) return write_all(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return {};
}

Status OutputFile::append_zeros(uint64_t n) {
  const std::vector<std::byte> zeros(n);
  return append(zeros);
}

Status OutputFile::flush() {
  const Status status = write_all(buffer_);
  buffer_.clear();
  return status;
}

Status OutputFile::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status OutputFile::close() {
  return ::close(std::exchange(fd_, -1)) == 0 ? Status() : Status(failure("close", errno));
}

Status OutputFile::commit() {
  RETURN_IF_ERROR(flush());
  if (!unfinished_) return close();
  if (::fsync(fd_) != 0) return failure("sync", errno);
  RETURN_IF_ERROR(close());
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return failure("replace", errno);
  unfinished_.reset();

  // The name itself is on the disk only when its folder is.
  const std::string folder = folder_of(target_);
  const int folder_fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return failure("open the folder of", errno);
  const int error = ::fsync(folder_fd) == 0 ? 0 : errno;
  ::close(folder_fd);
  const bool synced = error == 0 || error == EINVAL;  // some file systems have no sync of folders
  return synced ? Status() : Status(failure("sync the folder of", error));
}

bool is_standard_output(const std::string& output) {
  struct stat to {};
  return ::stat(output.c_str(), &to) == 0 && is_stdout(to);
}

bool would_replace(const std::string& output, const std::string& input) {
  struct stat to {}, from {};
  const bool read = (input == "-" ? ::fstat(STDIN_FILENO, &from) : ::stat(input.c_str(), &from)) == 0;
  return read && ::stat(output.c_str(), &to) == 0 && S_ISREG(to.st_mode) && same_file(to, from);
}

}  // namespace strata
