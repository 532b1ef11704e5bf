#include "experts/guessed_experts.h"

#include <algorithm>
#include <utility>

#include "experts/blob.h"
#include "experts/cache.h"

namespace strata::experts {
namespace {

// More rows use so many experts that caches don't hold them.
constexpr int64_t kGuessedRows = 4;
// What is read for each computing thread at the most: half of a second-level cache of today.
constexpr int64_t kThreadBytes = 1 << 20;

size_t ids_bytes(const DispatchLimits& limits) {
  return static_cast<size_t>(kGuessedRows * limits.n_used) * sizeof(int32_t);
}

}  // namespace

class GuessedExperts::Places final : public device::host::ExpertPlaces {
 public:
  Places(const device::ExpertBlob& blob, std::span<const std::byte* const> addresses)
      : blob_(blob), addresses_(addresses) {}
  device::host::PlacedExpert expert(int64_t i) const override {
    return device::host::placed(blob_, addresses_[static_cast<size_t>(i)]);
  }

 private:
  device::ExpertBlob blob_;
  std::span<const std::byte* const> addresses_;
};

Result<std::unique_ptr<GuessedExperts>> GuessedExperts::create(const DispatchSpec& spec) {
  std::unique_ptr<GuessedExperts> guessed(new GuessedExperts(spec));
  ASSIGN_OR_RETURN(guessed->ids_, spec.device.allocate_host(bytes_needed(spec.limits), device::MemoryKind::kPinned,
                                                            "guessed experts"));
  guessed->tasks_.resize(spec.layout.layers().size());
  const auto most = static_cast<size_t>(kGuessedRows * spec.limits.n_used);
  guessed->missing_.reserve(most);
  guessed->chosen_.reserve(most);
  guessed->addresses_.reserve(most);
  return guessed;
}

uint64_t GuessedExperts::bytes_needed(const DispatchLimits& limits) { return 2 * ids_bytes(limits); }

void GuessedExperts::enqueue(device::Stream& stream, const NextLayer& next, int64_t rows) {
  if (rows > kGuessedRows || !leaves_some(next.layer)) return;
  next.enqueue_router(ids(next.layer, rows));
  stream.host_task(task(next.layer));
}

const std::byte* GuessedExperts::address(ExpertKey key) const {
  const Lease::HostPlace place = spec_.source.pinned_place(key);
  return place.buffer == nullptr ? nullptr : place.buffer->address() + place.offset;
}

bool GuessedExperts::leaves_some(int32_t layer) const {
  const auto used = static_cast<size_t>(spec_.limits.n_used);
  if (!spec_.link_shares.empty() && spec_.link_shares[used] == spec_.limits.n_used) return false;
  for (int32_t expert = 0; expert < spec_.layout.layer(layer).n_experts; expert++) {
    if (address({layer, expert}) != nullptr) return true;
  }
  return false;
}

device::View<int32_t> GuessedExperts::ids(int32_t layer, int64_t rows) const {
  const size_t offset = layer % 2 == 0 ? 0 : ids_bytes(spec_.limits);
  return device::view_of<int32_t>(*ids_, rows, spec_.limits.n_used, offset);
}

const device::HostTask& GuessedExperts::task(int32_t layer) {
  std::unique_ptr<device::HostTask>& slot = tasks_[static_cast<size_t>(layer)];
  if (!slot) {
    slot = std::make_unique<device::HostTask>();
    slot->name = "guessed experts";
    slot->ranges = {ids(layer, kGuessedRows).range(false)};
    slot->spare = [this, layer](FunctionRef<bool()> awaited) { read(layer, awaited); };
  }
  return *slot;
}

void GuessedExperts::layer_begins(int32_t layer, int64_t n_rows, std::span<const int32_t> ids,
                                  std::span<const int32_t> places) {
  begun_layer_ = layer;
  live_rows_ = n_rows;
  if (chosen_layer_ != layer) return;
  chosen_layer_ = -1;
  const auto used = std::count_if(chosen_.begin(), chosen_.end(), [&](int32_t expert) {
    return places[static_cast<size_t>(expert)] < 0 && std::find(ids.begin(), ids.end(), expert) != ids.end();
  });
  spec_.stats.add(Counter::kGuessesUsed, used);
}

void GuessedExperts::read(int32_t layer, FunctionRef<bool()> awaited) {
  const int32_t begun_layer = std::exchange(begun_layer_, -1);
  if (begun_layer != layer - 1 || live_rows_ > kGuessedRows || awaited()) return;
  choose(layer);
  if (chosen_.empty()) return;
  addresses_.clear();
  for (const int32_t expert : chosen_) addresses_.push_back(address({layer, expert}));
  spec_.stats.add(Counter::kGuessedExperts, std::ssize(chosen_));
  const LockGuard turn(spec_.compute.turn());
  const Places places(packed_blob(spec_.layout.layer(layer)), addresses_);
  device::host::touch_experts(spec_.compute, places, std::ssize(addresses_), awaited);
}

void GuessedExperts::choose(int32_t layer) {
  const device::View<int32_t> guess = ids(layer, live_rows_);
  const auto guard = ids_->read<int32_t>(guess.offset, static_cast<size_t>(live_rows_ * guess.cols));
  missing_.clear();
  chosen_.clear();
  chosen_layer_ = layer;
  for (const int32_t expert : guard.span()) {
    const bool cached = spec_.cache != nullptr && spec_.cache->slot({layer, expert}) >= 0;
    if (!cached && address({layer, expert}) != nullptr) missing_.push_back(expert);
  }
  std::sort(missing_.begin(), missing_.end());
  missing_.erase(std::unique(missing_.begin(), missing_.end()), missing_.end());
  // As device::ShareExperts has it, where experts have a row each.
  const int32_t linked = spec_.link_shares.empty() ? 0 : spec_.link_shares[missing_.size()];
  missing_.erase(missing_.begin(), missing_.begin() + linked);
  const auto most = static_cast<size_t>(kThreadBytes * spec_.compute.pool().n_threads() / spec_.limits.blob_bytes);
  for (int64_t rank = 0; rank < guess.cols; rank++) {
    for (int64_t row = 0; row < live_rows_ && chosen_.size() < most; row++) {
      const auto at = std::lower_bound(missing_.begin(), missing_.end(), guess.row(row)[rank]);
      if (at == missing_.end() || *at != guess.row(row)[rank]) continue;
      chosen_.push_back(*at);
      missing_.erase(at);
    }
  }
}

}  // namespace strata::experts
