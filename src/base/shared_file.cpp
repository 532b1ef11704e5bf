// Locks: those of open file descriptions, fcntl_locking(2), F_OFD_SETLK. The kernel drops them with the last descriptor
// of the description, so however a process ends, its locks end with it.
#include "base/shared_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/format.h"
#include "base/small_file.h"

namespace strata {
namespace {

// Advice that headers of older systems don't name: madvise(2).
constexpr int kPopulateRead = 22, kPopulateWrite = 23, kCollapse = 25;
constexpr uint64_t kBlock = 512;  // of st_blocks, whatever the file system's own unit: inode(7)
constexpr mode_t kMode = 0666;  // the umask decides who shares

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

Error refusal(const std::string& path, std::string_view why) {
  return {ErrorCode::kBadInput, format("{} can't be shared: {}; give a file on tmpfs, as /dev/shm/NAME, or on "
                                       "hugetlbfs",
                                       printable(path), why)};
}

Error failure(const char* what, const std::string& path, int error) {
  return {ErrorCode::kIo, format("cannot {} {}: {}", what, printable(path), errno_text(error))};
}

bool is_hugetlbfs(const struct statfs& info) { return static_cast<uint32_t>(info.f_type) == HUGETLBFS_MAGIC; }

// What a file system of limited size has left; 0 and -1 blocks say that there is no limit.
std::optional<uint64_t> limit_of(const struct statfs& info) {
  if (info.f_blocks == 0 || info.f_blocks == static_cast<decltype(info.f_blocks)>(-1)) return std::nullopt;
  return static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
}

uint64_t number_in(const std::string& path) {
  const Result<std::string> text = read_small_file(path);
  uint64_t value = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

// Pages of 2 MiB that are set aside and promised to nobody.
uint64_t free_large_pages_bytes() {
  const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const uint64_t free = number_in(folder + "free_hugepages"), promised = number_in(folder + "resv_hugepages");
  return (free - std::min(free, promised)) * kSharedPage;
}

// Whether a file system of this kind keeps files in memory, in pages that can be mapped 2 MiB at a time.
Status check_kind(const struct statfs& info, const std::string& path) {
  if (static_cast<uint32_t>(info.f_type) == TMPFS_MAGIC) return {};
  if (!is_hugetlbfs(info)) return refusal(path, "it is on a drive");
  if (static_cast<uint64_t>(info.f_bsize) == kSharedPage) return {};
  return refusal(path, format("its hugetlbfs has pages of {}, mount one with pagesize=2M",
                              format_bytes(static_cast<unsigned long long>(info.f_bsize))));
}

Error open_error(const std::string& path, int error) {
  switch (error) {
    case EISDIR:
      return refusal(path, "it is a directory");
    case ELOOP:
      return refusal(path, "it is a symbolic link, or behind too many");
    case ENXIO:
    case ENODEV:
      return refusal(path, "it is not a regular file");
    case EACCES:
    case EPERM:
    case EROFS:
      return refusal(path, format("this user may not read and write it ({})", errno_text(error)));
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::kNotFound, format("cannot create {}: there is no folder {}", printable(path),
                                           printable(folder_of(path)))};
    default:
      return {ErrorCode::kIo, format("cannot open {}: {}", printable(path), errno_text(error))};
  }
}

// The "Name: N kB" line of a mapping in smaps; 0 for other lines.
uint64_t kib_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return 0;
  line.remove_prefix(name.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  uint64_t value = 0;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

struct AddressRange {
  uintptr_t begin = 0, end = 0;
};
// Of the line with which a mapping begins in smaps, "7f00-7f80 rw-s ..."; the names of its fields begin with a capital.
std::optional<AddressRange> address_range(std::string_view line) {
  AddressRange range;
  const char* const end = line.data() + line.size();
  const auto [dash, bad_begin] = std::from_chars(line.data(), end, range.begin, 16);
  if (bad_begin != std::errc() || dash == end || *dash != '-') return std::nullopt;
  const auto [stop, bad_end] = std::from_chars(dash + 1, end, range.end, 16);
  if (bad_end != std::errc()) return std::nullopt;
  return range;
}

}  // namespace

Result<std::optional<SharedFile>> SharedFile::open_with(const std::string& path, int flags) {
  int fd;
  do {
    // Without O_NONBLOCK, some devices would wait.
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, kMode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    const bool creating = (flags & O_CREAT) != 0;
    if (errno == (creating ? EEXIST : ENOENT)) return std::optional<SharedFile>();
    return open_error(path, errno);
  }
  SharedFile file(fd, path);
  RETURN_IF_ERROR(file.check());
  return std::optional(std::move(file));
}

Result<std::optional<SharedFile>> SharedFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) return refusal(path, "a path can't hold a NUL character");
  // Looked at first, because opening a device can do something.
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::optional<SharedFile>();
    return open_error(path, errno);
  }
  if (S_ISDIR(info.st_mode)) return open_error(path, EISDIR);
  if (S_ISLNK(info.st_mode)) return open_error(path, ELOOP);
  if (!S_ISREG(info.st_mode)) return open_error(path, ENXIO);
  return open_with(path, 0);
}

Result<std::optional<SharedFile>> SharedFile::create(const std::string& path) {
  struct statfs info {};
  const std::string folder = folder_of(path);
  if (::statfs(folder.c_str(), &info) != 0) return open_error(path, errno);
  RETURN_IF_ERROR(check_kind(info, path));  // before there is a file that nobody wants
  return open_with(path, O_CREAT | O_EXCL);
}

Status SharedFile::check() const {
  struct stat info {};
  struct statfs system {};
  if (::fstat(fd_, &info) != 0 || ::fstatfs(fd_, &system) != 0) return failure("look at", path_, errno);
  if (!S_ISREG(info.st_mode)) return open_error(path_, ENXIO);
  return check_kind(system, path_);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<bool> SharedFile::try_lock(uint64_t byte, Lock kind) {
  struct flock lock {};
  lock.l_type = kind == Lock::kShared ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  for (;;) {
    if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    if (errno == EINTR) continue;
    const int error = errno;
    return Error{ErrorCode::kUnsupported, format("cannot lock {}: {}; the system refuses locks of open file "
                                                 "descriptions, which sharing needs (Linux 3.15)",
                                                 printable(path_), errno_text(error))};
  }
}

Status SharedFile::unlock(uint64_t byte) {
  struct flock lock {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return ::fcntl(fd_, F_OFD_SETLK, &lock) == 0 ? Status() : Status(failure("unlock", path_, errno));
}

bool SharedFile::is_at_path() const {
  struct stat mine {}, named {};
  return ::fstat(fd_, &mine) == 0 && ::lstat(path_.c_str(), &named) == 0 && mine.st_dev == named.st_dev &&
         mine.st_ino == named.st_ino;
}

Status SharedFile::remove() {
  if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return {};
  return failure("remove", path_, errno);
}

Result<SharedFile::Size> SharedFile::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return failure("look at", path_, errno);
  return Size{.bytes = static_cast<uint64_t>(info.st_size),
              .allocated = static_cast<uint64_t>(info.st_blocks) * kBlock,
              .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Result<std::optional<uint64_t>> SharedFile::room() const {
  struct statfs info {};
  if (::fstatfs(fd_, &info) != 0) return failure("look at", path_, errno);
  std::optional<uint64_t> room = limit_of(info);
  if (!is_hugetlbfs(info)) return room;
  return std::optional(std::min(room.value_or(UINT64_MAX), free_large_pages_bytes()));
}

Result<size_t> SharedFile::read(uint64_t offset, std::span<std::byte> to) const {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t n = ::pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("read", path_, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Status SharedFile::allocate(uint64_t offset, uint64_t bytes) {
  while (::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    const bool full = error == ENOSPC || error == ENOMEM || error == EFBIG;
    return Error{full ? ErrorCode::kNoMemory : ErrorCode::kIo,
                 format("cannot give {} {} of memory: {}", printable(path_), format_bytes(bytes), errno_text(error))};
  }
  return {};
}

Result<std::unique_ptr<WritableMapping>> SharedFile::map_writable(uint64_t offset, uint64_t bytes) const {
  return strata::map_writable(fd_, {.offset = offset, .bytes = bytes, .page_bytes = kSharedPage}, path_);
}

Result<std::unique_ptr<Mapping>> SharedFile::map_read_only(uint64_t offset, uint64_t bytes) const {
  return map_range(fd_, {.offset = offset, .bytes = bytes, .page_bytes = kSharedPage}, path_);
}

uint64_t own_memory_bytes(const std::string& path) {
  struct stat info {};
  struct statfs system {};
  const bool there = ::lstat(path.c_str(), &info) == 0;
  if (there && !S_ISREG(info.st_mode)) return 0;
  const uint64_t has = there ? static_cast<uint64_t>(info.st_blocks) * kBlock : 0;
  if (::statfs(folder_of(path).c_str(), &system) != 0 || !is_hugetlbfs(system)) return has;
  return has + std::min(limit_of(system).value_or(UINT64_MAX), free_large_pages_bytes());
}

void populate_for_writing(std::span<std::byte> bytes) {
  ::madvise(bytes.data(), bytes.size(), kCollapse);
  ::madvise(bytes.data(), bytes.size(), kPopulateWrite);
}

void populate_for_reading(std::span<const std::byte> bytes) {
  ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), kPopulateRead);
}

uint64_t bytes_on_large_pages(std::span<const std::byte> memory) {
  std::FILE* const smaps = std::fopen("/proc/self/smaps", "re");
  if (smaps == nullptr) return 0;
  const auto first = reinterpret_cast<uintptr_t>(memory.data());
  uint64_t kib = 0;
  bool inside = false;
  char line[512];
  while (std::fgets(line, sizeof line, smaps) != nullptr) {
    const std::string_view text = line;
    if (const std::optional<AddressRange> range = address_range(text)) {
      inside = range->begin < first + memory.size() && range->end > first;
    } else if (inside) {
      for (const char* name : {"AnonHugePages:", "ShmemPmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"}) {
        kib += kib_of(text, name);
      }
    }
  }
  std::fclose(smaps);
  return std::min<uint64_t>(kib * kKiB, memory.size());
}

}  // namespace strata
