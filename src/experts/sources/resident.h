// A copy in RAM of the experts that no device's cache holds, over another source for all others.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "experts/adapt.h"
#include "experts/complement.h"
#include "experts/exchange.h"
#include "experts/source.h"

namespace strata::experts {

// What the copy is made from; all of it but the threads outlives it.
struct ResidentSpec {
  const gguf::Model& model;
  const ExpertLayout& layout;
  device::Device& device;  // whose host memory the copy takes
  ThreadPool& threads;     // that load it
  Stats& stats;
  // Page-locked at most: what is free without taking pages from anybody (free_ram_bytes()). The rest is pageable.
  uint64_t pin_bytes_max = 0;
  uint64_t step_bytes = kGiB;  // of a buffer, and of a page-locking, if its first expert is not larger
};

// Leases of the copy cost nothing: no lock, nothing to release, no fence. Thread-safe.
class ResidentSource final : public ExpertSource, public ResidentExchange {
 public:
  // Allocates and reads the experts of the plan, which is made for the layout and not empty. kIo names the file and
  // offset of a failed read, kNoMemory both sizes. A page-locking that is refused only leaves its experts, and those
  // behind them, pageable.
  static Result<std::unique_ptr<ResidentSource>> create(const ResidentSpec& spec, const ResidentPlan& plan,
                                                        std::unique_ptr<ExpertSource> fallback);

  const char* name() const override { return "resident"; }
  std::optional<Lease> try_lease(ExpertKey key) override;
  Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) override;
  size_t hint(std::span<const ExpertKey> keys, HintKind kind) override;
  int64_t lease_limit() const override { return fallback_->lease_limit(); }
  Status health() const override { return fallback_->health(); }
  const char* waiting_for() const override { return fallback_->waiting_for(); }

  bool holds(ExpertKey key) const override { return place(key).buffer != nullptr; }
  void begin_exchange(ExpertKey out, ExpertKey in, const device::HostBuffer& bytes, size_t offset) override;
  void cancel_exchange(ExpertKey out) override;
  void commit_exchange(ExpertKey out) override;
  // For each move `in`, which is not in the copy, takes the place of `out`, which is: read from the fallback, which has
  // every expert. Between steps, while no lease of an `out` is held and no copy out of one is queued. On failure the
  // moves before it are done, and the others' experts are where they were; after one of the fallback's health, at worst
  // only in the fallback.
  Status replace(std::span<const Move> moves);
  // Whether the expert lies in page-locked memory of the copy.
  bool pinned(ExpertKey key) const;
  int64_t n_pinned() const;  // experts
  uint64_t bytes() const;
  uint64_t pinned_bytes() const;
  // Leases that the fallback had to give.
  int64_t file_reads() const { return stats_.get(Counter::kResidentFileReads); }

 private:
  struct Place {
    const device::HostBuffer* buffer = nullptr;  // null: not in the copy
    size_t offset = 0;
  };
  struct Exchange {
    ExpertKey out, in;
  };

  ResidentSource(const ResidentSpec& spec, std::unique_ptr<ExpertSource> fallback);
  Status load(const ResidentSpec& spec, std::span<const ResidentBlob> blobs);
  Status load_step(const ResidentSpec& spec, std::span<const ResidentBlob> step);
  Status allocate(const ResidentSpec& spec, size_t bytes);
  Status fetch_batch(std::span<const ExpertKey> keys, std::span<Lease> leases);
  Lease lease(ExpertKey key, const Place& place);
  size_t index(ExpertKey key) const { return layout_.index(key); }
  const Place& place(ExpertKey key) const { return places_[index(key)]; }
  Status replace_some(std::span<const Move> moves);
  // Puts the leased expert where `out` was.
  void replace_one(const Lease& from, ExpertKey out);
  // The buffer of the copy that the place is in.
  device::HostBuffer& own_buffer(const Place& place) const;
  // Ends the exchange that `out` is part of; the expert that is to make place for it.
  ExpertKey end_exchange(ExpertKey out);
  void release(uint32_t) override {}
  void note_async_read(uint32_t, device::Stream&) override {}

  const ExpertLayout& layout_;
  Stats& stats_;
  std::unique_ptr<ExpertSource> fallback_;
  std::vector<Place> places_;        // [all experts]
  std::vector<Exchange> exchanges_;  // under way
  std::vector<std::unique_ptr<device::HostBuffer>> buffers_;
  bool pinning_ = true;  // false once one was refused, or there is no more room for it
};

}  // namespace strata::experts
