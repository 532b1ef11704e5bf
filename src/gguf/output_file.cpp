#include "gguf/output_file.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/format.h"
#include "gguf/encoding.h"
#include "gguf/split.h"

namespace strata::gguf {
namespace {

constexpr size_t kBufferBytes = kMiB;

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), tmp_path_(path_ + ".tmp") {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (pending_) ::unlink(tmp_path_.c_str());
}

Error OutputFile::failure(const char* what, const std::string& path) const {
  const int error = errno;
  return {ErrorCode::kIo, format("cannot {} {}: {}", what, printable(path, kMaxPathPrinted),
                                 std::generic_category().message(error))};
}

Status OutputFile::open() {
  fd_ = ::open(tmp_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) return failure("create", tmp_path_);
  pending_ = true;
  buffer_.reserve(kBufferBytes);
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
    if (n < 0) return failure("write", tmp_path_);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status OutputFile::commit() {
  RETURN_IF_ERROR(flush());
  if (::fsync(fd_) != 0) return failure("sync", tmp_path_);
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) return failure("close", tmp_path_);
  if (std::rename(tmp_path_.c_str(), path_.c_str()) != 0) return failure("rename to its final name", tmp_path_);
  pending_ = false;

  // The name itself is on the disk only when its folder is.
  const std::string folder = directory_of(path_).empty() ? "." : std::string(directory_of(path_));
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return failure("open the folder", folder);
  const bool synced = ::fsync(folder_fd) == 0 || errno == EINVAL;  // some file systems have no sync of folders
  const Status status = synced ? Status() : Status(failure("sync the folder", folder));
  ::close(folder_fd);
  return status;
}

}  // namespace strata::gguf
