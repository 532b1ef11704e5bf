#include "device/sim/memory_record.h"

#include <sys/mman.h>

#include <cstring>

#include "base/bytes.h"
#include "device/sim/core.h"

namespace strata::device::sim {
namespace {

constexpr int kPoison = 0xff;
constexpr size_t kPage = 4096;
constexpr uint64_t kQuarantineBytes = 64 * kMiB;

}  // namespace

MemoryRecord* MemoryRecord::of(const Core& core, const Memory& memory) {
  auto* record = dynamic_cast<MemoryRecord*>(memory.observer());
  return record != nullptr && &record->core_ == &core ? record : nullptr;
}

void MemoryRecord::before_free() { core_.schedule.wait_unused(*this); }

uint64_t MemoryRecord::begin_access(size_t, size_t, bool, SourceSite) { return 0; }
void MemoryRecord::end_access(uint64_t) {}
uint64_t MemoryRecord::submit_read(size_t, size_t, SourceSite) { return 0; }
void MemoryRecord::reap_read(uint64_t) {}

Pages::~Pages() {
  for (const std::span<std::byte> pages : quarantine_) munmap(pages.data(), pages.size());
}

std::byte* Pages::take(size_t bytes) {
  const auto size = checked_align_up(bytes, kPage);
  if (!size) return nullptr;
  void* pages = mmap(nullptr, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::memset(pages, kPoison, *size);
  return static_cast<std::byte*>(pages);
}

void Pages::give_back(std::byte* pages, size_t bytes) {
  const size_t size = align_up(bytes, kPage);
  std::memset(pages, kPoison, size);
  const std::lock_guard<std::mutex> lock(mutex_);
  quarantine_.emplace_back(pages, size);
  quarantined_bytes_ += size;
  while (quarantined_bytes_ > kQuarantineBytes) {
    const std::span<std::byte> oldest = quarantine_.front();
    quarantine_.pop_front();
    quarantined_bytes_ -= oldest.size();
    munmap(oldest.data(), oldest.size());
  }
}

uint64_t Pages::quarantined_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return quarantined_bytes_;
}

}  // namespace strata::device::sim
