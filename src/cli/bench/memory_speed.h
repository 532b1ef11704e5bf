// How fast the threads of an engine can move memory: the ceiling that decoding is measured against.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/thread_pool.h"

namespace strata::cli {

inline constexpr uint64_t kMemorySpeedBytes = uint64_t{2} << 30;

struct ReadSpeed {
  int threads = 0;
  double bytes_per_second = 0;  // the best of several passes
  uint64_t buffer_bytes = 0;
  bool reduced = false;     // the buffer is smaller than it was to be: there is not enough RAM
  uint64_t huge_bytes = 0;  // of the buffer, on huge pages
};

// Every thread reads a piece of its own, which it was the first to touch. `buffer_bytes` as wanted; kNoMemory.
Result<ReadSpeed> measure_read(const ThreadPoolOptions& threads, uint64_t buffer_bytes);

struct MemorySpeed {
  ReadSpeed read;
  double write_bytes_per_second = 0;
  double copy_bytes_per_second = 0;  // bytes read plus bytes written
};

// Reading as measure_read() does, and writing and copying past the caches.
Result<MemorySpeed> measure_memory(const ThreadPoolOptions& threads, uint64_t buffer_bytes);

}  // namespace strata::cli
