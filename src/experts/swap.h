// Moves experts between a device's cache and the memory that holds the others, while steps go on in between.
//
// A batch of moves goes through these states, one advance() from each to the next, so that a step's computing hides the
// copies. In each of them every expert can be read somewhere, and a step sees a table that is right:
//
//   kIdle
//    | begin: the bytes of the experts that leave are copied from their slots to exchange buffers, on a stream of the
//    v   swaps' own; for those that the host has anyway there is nothing to save
//   kSaving      those that leave are still resident; steps compute them from their slots
//    | out saved: RAM serves them from the exchange buffers (begin_exchange), then the cache withdraws their slots
//    v   and those that come are copied into the slots
//   kUploading   (overridden) both are misses; those that come are still read from where they were
//    | landed
//    v
//   kLanded      the slots hold the new bytes; the cache is told that they are resident
//    | committed: the places in RAM of those that came now take the bytes of the exchange buffers (commit_exchange)
//    v
//   kIdle
//
// What fails before slots are withdrawn is given up, and nothing has changed. An upload that fails is undone: the old
// bytes go back into their slots (kRestoring), from the exchange buffers, or from the source where nothing had to be
// saved. Telling the cache, and the way back, are tried again with the next advance() until they succeed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "experts/adapt.h"
#include "experts/cache.h"
#include "experts/exchange.h"

namespace strata::experts {

// What swaps are made from; all of it outlives them. No lease is taken after their end: a resident copy may still name
// their buffers.
struct SwapSpec {
  device::Device& device;
  device::Stream& compute;  // whose operations read the slots
  ExpertCache& cache;
  ExpertSource& source;
  const ExpertLayout& layout;
  Stats& stats;
  ResidentExchange* resident = nullptr;  // null: the source has every expert at any time
  int64_t max_moves = 0;                 // of a batch
};

enum class SwapState { kIdle, kSaving, kUploading, kLanded, kRestoring };

// Used by the thread that queues the steps, between them. Its memory is allocated once.
class ExpertSwaps {
 public:
  // kNoMemory when its pinned buffers don't fit.
  static Result<std::unique_ptr<ExpertSwaps>> create(const SwapSpec& spec);
  // Waits for its copies.
  ~ExpertSwaps();
  // What create() allocates, of pinned host memory.
  static uint64_t bytes_needed(const ExpertLayout& layout, int64_t max_moves, bool resident);

  SwapState state() const { return state_; }
  // Starts the moves, at most max_moves, out of and into a cache that nothing is lent of. Only when idle. An error,
  // like one of advance(), is for people to know: the experts are where the states say.
  Status begin(std::span<const Move> moves);
  // Waits for the copies of the state, then goes on to the next one.
  Status advance();
  // Advances until idle. An error when that is not reached in a few tries; then the slots are not to be lent.
  Status settle();

 private:
  struct Swap {
    ExpertKey in, out;
    int32_t slot = -1;
    bool exchanged = false;                        // `out` goes where `in` was in RAM
    std::unique_ptr<device::HostBuffer> saved;     // bytes of `out`; null without a resident copy
    device::HostTask read_in, read_out;            // into staged_
  };

  explicit ExpertSwaps(const SwapSpec& spec) : spec_(spec), stream_(spec.device.make_stream("swaps")) {}
  Status allocate();
  std::span<Swap> batch() { return std::span(swaps_).first(n_moves_); }
  Status wait_for_copies();
  Status withdraw();
  // Tells the cache that the slots hold those that came, or those that were there before.
  Status place(ExpertKey Swap::*expert);
  Status commit();
  Status restore();
  void queue_uploads();
  void queue_way_back();
  // Queues a read of the expert into staged_ and from there into the slot.
  void queue_upload(const Swap& swap, ExpertKey key, const device::HostTask& read);
  Status read(ExpertKey key);
  size_t blob_bytes(const Swap& swap) const { return spec_.layout.layer(swap.in.layer).blob_bytes(); }
  size_t slot_offset(const Swap& swap) const {
    return static_cast<size_t>(spec_.cache.plan().slots()[static_cast<size_t>(swap.slot)].offset);
  }

  SwapSpec spec_;
  SwapState state_ = SwapState::kIdle;
  std::vector<Swap> swaps_;  // [max_moves]; those of the batch come first
  size_t n_moves_ = 0;       // of the batch
  std::vector<int32_t> slots_;       // of the batch
  std::vector<SlotExpert> placed_;   // what the cache is told
  std::unique_ptr<device::HostBuffer> staged_;
  std::unique_ptr<device::Stream> stream_;
};

}  // namespace strata::experts
