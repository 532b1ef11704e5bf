#include "cli/bench/pages.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include <sys/mman.h>

#include "base/bytes.h"
#include "base/format.h"
#include "base/topology.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr uint64_t kHugePage = 2 * kMiB;
constexpr uint64_t kMaxRollupBytes = 64 * kKiB;

}  // namespace

Result<std::unique_ptr<Pages>> Pages::allocate(uint64_t bytes) {
  const Error none{ErrorCode::kNoMemory, format("the system has no {} to measure with; give a smaller --buffer-mib",
                                                format_bytes(bytes))};
  const auto size = checked_align_up(bytes, kHugePage);
  const auto mapped = size ? checked_add(*size, kHugePage) : std::nullopt;
  if (!mapped) return none;
  void* address = ::mmap(nullptr, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return none;
  std::byte* begin = static_cast<std::byte*>(address);
  std::byte* aligned = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  static_cast<void>(::madvise(aligned, *size, MADV_HUGEPAGE));  // a wish: without it the pages are small
  return std::unique_ptr<Pages>(new Pages({begin, *mapped}, {aligned, *size}));
}

Pages::~Pages() { ::munmap(mapping_.data(), mapping_.size()); }

// The system counts huge pages for the whole process, which has hardly any others.
uint64_t Pages::huge_bytes() const {
  const auto text = read_text("/proc/self/smaps_rollup", kMaxRollupBytes);
  if (!text.ok()) return 0;
  constexpr std::string_view kField = "AnonHugePages:";
  size_t at = text->find(kField);
  if (at == std::string::npos) return 0;
  at = text->find_first_not_of(' ', at + kField.size());
  uint64_t kib = 0;
  if (at != std::string::npos) std::from_chars(text->data() + at, text->data() + text->size(), kib);
  return std::min<uint64_t>(kib * kKiB, bytes_.size());
}

Result<BufferSize> buffer_size(uint64_t wanted) {
  ASSIGN_OR_RETURN(const uint64_t available, available_ram_bytes());
  const uint64_t room = available / 2 / kHugePage * kHugePage;
  if (wanted <= room) return BufferSize{.bytes = wanted, .reduced = false};
  if (room == 0) {
    return Error{ErrorCode::kNoMemory, format("only {} of RAM are available, too little to measure its speed",
                                              format_bytes(available))};
  }
  return BufferSize{.bytes = room, .reduced = true};
}

}  // namespace strata::cli
