// Stage buffers: aligned host memory that experts are read into from files, lent out, and recycled, the least recently
// used first. Bookkeeping only; who fills a buffer, and with what, is the caller's business.
//
// A buffer is free, being filled, full, or failed. Whoever claims an expert holds a lease on its buffer from then on,
// filled or not, so that the buffer stays that expert's until the lease is given back:
//
//   claim -> kMine:    prepare(), start the fill; wait()
//            kComing:  somebody else fills it; wait(). If that fill fails, claim again
//            kHere:    the bytes are there
//            kNoRoom:  start what was claimed so far, make_room(), claim again
//
// A buffer is recycled when nobody holds a lease on it and every copy that was queued out of it is done. The least
// recently used one is taken even while a copy reads it, and that copy waited for: buffers without copies are the
// fresher ones, and taking those instead costs more reads of files than the waiting does.
//
// All calls are safe from several threads. Nothing but make_room(), prepare(), wait(), note_async_read() and the two
// ends blocks.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/stats.h"
#include "base/topology.h"
#include "device/device.h"
#include "experts/expert.h"
#include "experts/fences.h"

namespace strata::experts {

struct StagePoolOptions {
  device::Device& device;  // that the buffers come from
  const ExpertLayout& layout;
  Stats& stats;
  int64_t n_buffers = 0;    // >= 1
  size_t buffer_bytes = 0;  // of the largest blob as it is read
  size_t alignment = 0;     // of where a blob starts
  bool pin = true;          // page-locked buffers, as far as the system gives them
  std::function<Result<uint64_t>()> available_ram = [] { return available_ram_bytes(); };
};
// Page-locking that leaves less RAM than this is not tried: what is locked can't be taken back when it is needed.
inline constexpr uint64_t kFreeWhenPinned = 3 * kGiB;

class StagePool {
 public:
  // kNoMemory when the system does not have the buffers.
  static Result<std::unique_ptr<StagePool>> create(const StagePoolOptions& options);
  ~StagePool() { close(); }

  struct Claim {
    enum class Outcome { kHere, kComing, kMine, kNoRoom } outcome;
    uint32_t place = 0;  // of the buffer; its lease is the caller's, except with kNoRoom
  };
  Claim claim(ExpertKey key);
  // A lease on an expert whose bytes are there.
  std::optional<uint32_t> claim_present(ExpertKey key);
  // The buffer that the caller fills with an expert that may be asked for soon; nobody holds a lease on it. Nothing
  // where the expert is there or coming, or where it would take a buffer from somebody: leased, being filled, read by a
  // copy, of another hint whose layer is yet to come; or when half of all buffers are such hints' already.
  std::optional<uint32_t> claim_for_hint(ExpertKey key);

  // After kNoRoom: returns when a claim may succeed. Adds a buffer if all of them are leased (or lost to a read that
  // does not end); else some are being filled for hints, and it waits for one. kNoMemory when there is no more.
  Status make_room();

  // By whoever fills a buffer, before it does: waits for the copies out of it.
  void prepare(uint32_t place);
  // The same without waiting; false, and the buffer is not prepared, where a copy is not done.
  bool try_prepare(uint32_t place);
  // The fill has ended. A failed one frees the buffer, once its leases are given back and it is settled: nothing writes
  // into it any more.
  void filled(uint32_t place, Status status, bool settled = true);
  // After filled() with settled = false.
  void settled(uint32_t place);
  // Waits for the fill of a buffer that the caller holds a lease on. On failure that lease is given back.
  Status wait(uint32_t place);

  void release(uint32_t place);
  // A copy out of the buffer was just queued. Copies from pageable buffers have taken their bytes already.
  void note_async_read(uint32_t place, device::Stream& stream);

  // The bytes, of whoever fills the buffer or holds a lease on it. A blob starts at `start`.
  struct Place {
    device::HostBuffer* buffer;
    size_t start;
    std::byte* address() const { return buffer->address() + start; }
  };
  Place place(uint32_t place) const;

  // The layer that is asked for next. A lower one than before begins the next token.
  void enter_layer(int32_t layer);

  int64_t n_asked() const { return options_.n_buffers; }
  int64_t n_buffers() const;
  // What the buffers are, a line for people.
  std::string report() const;

  // Nobody holds a lease. Waits for fills and copies, destroys the events and frees the buffers that start-up took
  // beyond those asked for.
  void end_start_up();
  // The same, with all buffers; fills have ended. The pool is not used any more.
  void close();

 private:
  enum class State { kFree, kFilling, kFull, kFailed };
  struct Stage {
    std::unique_ptr<device::HostBuffer> buffer;
    size_t start = 0;
    State state = State::kFree;
    ExpertKey key;
    int64_t layer_stamp = 0;  // the visit of a layer that it was claimed for
    int64_t last_use = 0;
    int leases = 0;
    bool hinted = false;   // filled for a hint, and not asked for yet
    bool settled = true;   // nothing writes into it
    Status error = {};     // of a failed fill
    FenceTable fences;
    device::HostBuffer::IncomingRead incoming;
  };

  explicit StagePool(const StagePoolOptions& options);
  Result<std::unique_ptr<Stage>> make_stage();
  // Why the next buffer is not to be page-locked; empty if it is.
  std::string why_not_pinned(size_t bytes) const;

  Stage& own(uint32_t place) const;

  // With the mutex held.
  Stage& stage(uint32_t place) const { return *stages_[place]; }
  int32_t& where(ExpertKey key);
  std::optional<uint32_t> least_recent(bool for_hint) const;
  bool takable(const Stage& s) const { return s.leases == 0 && (s.state == State::kFree || s.state == State::kFull); }
  bool fresh_hint(const Stage& s) const { return s.hinted && s.layer_stamp >= layer_stamp_; }
  bool all_leased() const;
  void take(uint32_t place, ExpertKey key, int64_t layer_stamp);
  void use(Stage& s);
  void forget(Stage& s);
  static void settle(Stage& s);
  static void free_if_over(Stage& s);
  int64_t stamp_of(ExpertKey key) const;

  const StagePoolOptions options_;

  Mutex growth_mutex_;  // one thread at a time allocates; taken before mutex_
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Stage>> stages_;  // by place; a Stage never moves
  std::vector<int32_t> where_;  // by expert: the place that holds it or will, -1 for none
  int64_t uses_ = 0;
  int32_t layer_ = -1;  // asked for last
  int64_t token_ = 0;
  int64_t layer_stamp_ = 0;
  int64_t n_pageable_ = 0;
  std::string why_pageable_;
};

}  // namespace strata::experts
