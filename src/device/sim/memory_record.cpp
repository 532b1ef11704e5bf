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

Range MemoryRecord::range(size_t offset, size_t bytes, bool write) const {
  return {&memory_, offset, bytes, 1, bytes, write};
}

void MemoryRecord::before_free() {
  core_.schedule.wait_unused(*this);
  if (!core_.checker) return;
  const std::lock_guard<std::mutex> lock(core_.order.mutex());
  core_.checker->note(core_.order.current(), accesses, range(0, memory_.bytes(), true), "freeing", {});
}

// Host code that races goes on, but not before what it races with has run: its bytes may be wrong, but nothing is
// touched by two threads at once.
uint64_t MemoryRecord::begin_access(size_t offset, size_t bytes, bool write, SourceSite site) {
  if (!core_.checker) return 0;
  std::optional<std::string> race;
  uint64_t access;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    access =
        core_.checker->open(core_.order.current(), accesses, range(offset, bytes, write), "host access", site, race);
  }
  if (race) core_.schedule.wait_untouched(*this);
  return access;
}

void MemoryRecord::end_access(uint64_t access) {
  if (!core_.checker) return;
  const std::lock_guard<std::mutex> lock(core_.order.mutex());
  core_.checker->close(access);
}

// A strand of its own from here until it is reaped, named by its slot.
uint64_t MemoryRecord::submit_read(size_t offset, size_t bytes, SourceSite site) {
  std::optional<std::string> race;
  uint32_t slot;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    const Stamp submitted = core_.order.release(core_.order.current());
    Strand& read = *core_.order.open(StrandKind::kRead, "drive", submitted);
    const int64_t duration = duration_ns(bytes, core_.spec.drive_bytes_per_s);
    read.now.time_ns = later(core_.drive.reserve(read.now.time_ns, duration), duration);
    if (core_.checker) race = core_.checker->note(read, accesses, range(offset, bytes, true), "read from a file", site);
    slot = read.slot;
  }
  if (race) core_.schedule.wait_untouched(*this);
  return slot;
}

void MemoryRecord::reap_read(uint64_t slot) {
  const std::lock_guard<std::mutex> lock(core_.order.mutex());
  Strand& read = core_.order.at(static_cast<uint32_t>(slot));
  core_.order.current().now.join(core_.order.release(read));
  core_.order.close(&read);
}

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
