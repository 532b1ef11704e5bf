#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/direct_io.h"
#include "base/format.h"
#include "base/mapping.h"
#include "base/small_file.h"

namespace strata {
namespace {

// A file system that interrupts every attempt must not hang the program.
constexpr int kInterruptionsMax = 10'000;

constexpr uint64_t kOffsetMax = std::numeric_limits<off_t>::max();
constexpr size_t kReadMax = size_t{1} << 30;  // Linux caps one read just below 2 GiB

class RealFile final : public File {
 public:
  RealFile(int fd, uint64_t size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}
  ~RealFile() override { ::close(fd_); }
  RealFile(const RealFile&) = delete;
  RealFile& operator=(const RealFile&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
    if (offset > kOffsetMax) return size_t{0};  // no file reaches so far
    const size_t length = std::min({dst.size(), kReadMax, static_cast<size_t>(kOffsetMax - offset)});
    const ssize_t n = ::pread(fd_, dst.data(), length, static_cast<off_t>(offset));
    if (n >= 0) return static_cast<size_t>(n);
    return read_error(path_, offset, length, errno);
  }

  Result<std::unique_ptr<Mapping>> map() override { return map_file(fd_, size_, path_); }

  void will_need(uint64_t offset, uint64_t bytes) override {
    if (offset > kOffsetMax || bytes > kOffsetMax - offset) return;
    ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
  }

  int descriptor() const override { return fd_; }
  size_t read_alignment() const override { return read_alignment_; }
  void set_read_alignment(size_t alignment) { read_alignment_ = alignment; }

 private:
  int fd_;
  uint64_t size_;
  std::string path_;
  size_t read_alignment_ = 1;
};

Error path_error(const char* action, const std::string& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return {missing ? ErrorCode::kNotFound : ErrorCode::kIo,
          format("cannot {} {}: {}", action, printable(path), errno_text(error))};
}

// A C string ends at the first NUL, so a path that holds one would name another file.
bool has_nul(const std::string& path) { return path.find('\0') != std::string::npos; }

Error nul_error(const std::string& path) {
  return {ErrorCode::kBadInput, format("cannot open {}: a path can't hold a NUL character", printable(path))};
}

// Without O_NONBLOCK, opening a FIFO would wait for a writer.
int open_read_only(const std::string& path, int more_flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more_flags);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path) override {
    ASSIGN_OR_RETURN(auto file, open_with(path, 0));
    return std::unique_ptr<File>(std::move(file));
  }

  Result<std::unique_ptr<File>> open_direct(const std::string& path) override {
    ASSIGN_OR_RETURN(auto file, open_with(path, O_DIRECT));
    ASSIGN_OR_RETURN(const size_t alignment, direct_read_alignment(file->descriptor(), path));
    file->set_read_alignment(alignment);
    return std::unique_ptr<File>(std::move(file));
  }

  bool exists(const std::string& path) override {
    struct stat info {};
    return !has_nul(path) && ::stat(path.c_str(), &info) == 0;
  }

  bool is_directory(const std::string& path) override {
    struct stat info {};
    return !has_nul(path) && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    if (has_nul(directory)) return nul_error(directory);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
    if (!stream) return path_error("list directory", directory, errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) break;
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
    }
    if (errno != 0) return path_error("list directory", directory, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  Result<std::unique_ptr<RealFile>> open_with(const std::string& path, int more_flags) {
    if (has_nul(path)) return nul_error(path);
    const int fd = open_read_only(path, more_flags);
    if (fd < 0) {
      const int error = errno;
      if (error == ENXIO || error == ENODEV) return not_regular(path);  // a socket, or a device without a driver
      if (error == EINVAL && more_flags != 0) return no_direct_reads(path, "its file system refuses them");
      return path_error("open", path, error);
    }
    struct stat info {};
    if (::fstat(fd, &info) != 0) {
      const int error = errno;
      ::close(fd);
      return path_error("open", path, error);
    }
    if (!S_ISREG(info.st_mode)) {
      ::close(fd);
      return not_regular(path);
    }
    // pread ignores the flag on regular files, but io_uring may answer "try again" because of it.
    ::fcntl(fd, F_SETFL, more_flags);
    return std::make_unique<RealFile>(fd, static_cast<uint64_t>(info.st_size), path);
  }

  Error not_regular(const std::string& path) {
    const char* what = is_directory(path) ? "a directory" : "not a regular file";
    return {ErrorCode::kBadInput, format("cannot open {}: it is {}; give a regular file", printable(path), what)};
  }
};

}  // namespace

Status File::read_exact(uint64_t offset, std::span<std::byte> dst) {
  const auto cannot_read = [&](const std::string& why) {
    return Error{ErrorCode::kIo,
                 format("cannot read {} bytes at offset {} of {}: {}", dst.size(), offset, printable(path()), why)};
  };
  if (!checked_add(offset, dst.size())) return cannot_read("past the largest offset");
  size_t done = 0;
  int interruptions = 0;
  while (done < dst.size()) {
    const Result<size_t> n = read_some(offset + done, dst.subspan(done));
    if (!n.ok()) {
      if (n.error().code != ErrorCode::kInterrupted) return n.error();
      if (++interruptions == kInterruptionsMax) return cannot_read("interrupted again and again");
      continue;
    }
    ASSERT(*n <= dst.size() - done);
    if (*n == 0) return cannot_read(format("the file ends after {} of them (truncated?)", done));
    done += *n;
    interruptions = 0;
  }
  return {};
}

Error read_error(const std::string& path, uint64_t offset, size_t bytes, int error) {
  const bool again = error == EINTR || error == EAGAIN;
  return {again ? ErrorCode::kInterrupted : ErrorCode::kIo,
          format("cannot read {} bytes at offset {} of {}: {}", bytes, offset, printable(path), errno_text(error))};
}

Result<std::unique_ptr<File>> FileSystem::open_direct(const std::string& path) {
  return no_direct_reads(path, "it is no file of the system");
}

FileSystem& real_file_system() {
  static RealFileSystem file_system;
  return file_system;
}

Result<std::string> read_small_file(const std::string& path) {
  constexpr size_t kBytesMax = kMiB;
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, real_file_system().open(path));
  std::string text;
  std::byte block[4096];
  for (;;) {
    const Result<size_t> n = file->read_some(text.size(), block);
    if (!n.ok()) return n.error();
    if (*n == 0) return text;
    text.append(reinterpret_cast<const char*>(block), *n);
    if (text.size() > kBytesMax) {
      return Error{ErrorCode::kBadInput, format("{} is longer than {}", printable(path), format_bytes(kBytesMax))};
    }
  }
}

}  // namespace strata
