#include "gguf/allocation_meter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace strata::test {
namespace {

std::atomic<bool> g_counting{false};
std::atomic<uint64_t> g_total_bytes{0};

void* counted_malloc(std::size_t size) {
  if (g_counting.load(std::memory_order_relaxed)) g_total_bytes.fetch_add(size, std::memory_order_relaxed);
  return std::malloc(size);
}

}  // namespace

AllocationMeter::AllocationMeter() {
  g_total_bytes = 0;
  g_counting = true;
}
AllocationMeter::~AllocationMeter() { g_counting = false; }
uint64_t AllocationMeter::total_bytes() const { return g_total_bytes; }

}  // namespace strata::test

void* operator new(std::size_t size) {
  if (void* memory = strata::test::counted_malloc(size)) return memory;
  std::abort();
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
