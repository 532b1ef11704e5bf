// Inside base/ only: reads that run beside the thread that asks for them, just as the system offers it. What is done
// about short, interrupted and failed reads is the read queue's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "base/file.h"

namespace strata {

struct RingRead {
  uint64_t id;  // of its result
  File* file;
  uint64_t offset;
  std::span<const iovec> into;  // one behind the other in the file; at most kRingSegmentsMax
};
inline constexpr size_t kRingSegmentsMax = 64;

struct RingResult {
  uint64_t id;
  Result<size_t> n;  // bytes read, as File::read_some tells it
};

// For one thread, except for wake(). Everything of a read lives until its result was taken; when the ring dies, all
// were.
class ReadRing {
 public:
  virtual ~ReadRing() = default;
  // At most as many at once as the ring was made for. The read runs from the next flush() on at the latest.
  virtual void start(const RingRead& read) = 0;
  virtual void flush() = 0;
  // Adds the results that are there, waiting for the first until max_wait_ns have passed (less than 0: for ever) or
  // wake() was called since the last wait() ended.
  virtual void wait(int64_t max_wait_ns, std::vector<RingResult>& results) = 0;
  virtual void wake() = 0;  // any thread
};

// On io_uring, for files that have a descriptor. kUnsupported, with the system's reason, where it is not to be had:
// many containers forbid it.
Result<std::unique_ptr<ReadRing>> make_uring(int depth);

// By threads that read one after the other, each one read at a time; any File.
std::unique_ptr<ReadRing> make_thread_ring(int n_threads);

}  // namespace strata
