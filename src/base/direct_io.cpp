// Direct reads: statx(2) tells the alignment from Linux 6.1 on (STATX_DIOALIGN); before, and on file systems that do
// not answer, 4 KiB holds for every drive in use. What is told is then tried, because some network and stacked file
// systems accept O_DIRECT when a file is opened and refuse the reads.
#include "base/direct_io.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/bytes.h"
#include "base/format.h"
#include "base/mapping.h"

namespace strata {
namespace {

constexpr size_t kUsualAlignment = 4096;
// linux/stat.h of older systems names neither the flag nor the fields (statx(2): two 32-bit numbers behind stx_mnt_id).
constexpr unsigned kStatxDioAlign = 0x2000;
constexpr size_t kMemAlignAt = 0x98, kOffsetAlignAt = 0x9c;

struct Answer {
  bool known = false;
  uint32_t memory = 0;  // 0: no direct reads
  uint32_t offset = 0;
};

Answer ask_statx(int fd) {
  alignas(8) unsigned char raw[256] = {};
  static_assert(sizeof(struct statx) == sizeof raw);
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kStatxDioAlign, raw) != 0) return {};
  const auto field = [&](size_t at) { return load_le<uint32_t>(raw + at); };
  if ((field(0) & kStatxDioAlign) == 0) return {};
  return {true, field(kMemAlignAt), field(kOffsetAlignAt)};
}

bool lies_in_memory(int fd) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return false;
  const auto type = static_cast<uint32_t>(info.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

// errno of a read of the first block, 0 if it works.
int try_read(int fd, size_t alignment) {
  const std::unique_ptr<void, void (*)(void*)> block(std::aligned_alloc(alignment, alignment), std::free);
  if (!block) return ENOMEM;
  for (;;) {
    if (::pread(fd, block.get(), alignment, 0) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

Result<size_t> direct_read_alignment(int fd, const std::string& path) {
  if (lies_in_memory(fd)) return no_direct_reads(path, "it lies in memory");
  const Answer answer = ask_statx(fd);
  if (answer.known && (answer.memory == 0 || answer.offset == 0)) {
    return no_direct_reads(path, "its file system has none");
  }
  const size_t told = std::max(answer.memory, answer.offset);
  const size_t alignment = std::max(kUsualAlignment, told);
  if (!std::has_single_bit(alignment) || alignment > kDirectAlignmentMax) {
    return no_direct_reads(path, format("they would have to be aligned to {} bytes", told));
  }
  if (const int error = try_read(fd, alignment); error == EINVAL) {
    return no_direct_reads(path, "its file system refuses them");
  }
  return alignment;
}

Error no_direct_reads(const std::string& path, const std::string& why) {
  return {ErrorCode::kUnsupported, format("{} can't be read past the page cache: {}", printable(path), why)};
}

}  // namespace strata
