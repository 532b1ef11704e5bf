#include "experts/swap.h"

#include <cstring>

#include "base/mutation.h"

namespace strata::experts {
namespace {

// Advances until settle() gives up: a batch takes four, a way back three more, and each may fail once or twice.
constexpr int kSettleTries = 16;

}  // namespace

Result<std::unique_ptr<ExpertSwaps>> ExpertSwaps::create(const SwapSpec& spec) {
  ASSERT(spec.max_moves > 0);
  std::unique_ptr<ExpertSwaps> swaps(new ExpertSwaps(spec));
  RETURN_IF_ERROR(swaps->allocate());
  return swaps;
}

ExpertSwaps::~ExpertSwaps() { static_cast<void>(stream_->synchronize()); }

uint64_t ExpertSwaps::bytes_needed(const ExpertLayout& layout, int64_t max_moves, bool resident) {
  return uint64_t{layout.largest_blob_bytes()} * static_cast<uint64_t>(1 + (resident ? max_moves : 0));
}

Status ExpertSwaps::allocate() {
  const size_t bytes = spec_.layout.largest_blob_bytes();
  ASSIGN_OR_RETURN(staged_, spec_.device.allocate_host(bytes, device::MemoryKind::kPinned, "an expert on its way"));
  swaps_.resize(static_cast<size_t>(spec_.max_moves));
  slots_.reserve(swaps_.size());
  placed_.reserve(swaps_.size());
  for (Swap& swap : swaps_) {
    const device::Range staged{staged_.get(), 0, bytes, 1, bytes, true};
    swap.read_in = {.name = "read expert", .run = [this, &swap] { return read(swap.in); }, .ranges = {staged}};
    swap.read_out = {.name = "read expert", .run = [this, &swap] { return read(swap.out); }, .ranges = {staged}};
    if (spec_.resident == nullptr) continue;
    ASSIGN_OR_RETURN(swap.saved, spec_.device.allocate_host(bytes, device::MemoryKind::kPinned, "an exchanged expert"));
  }
  return {};
}

Status ExpertSwaps::begin(std::span<const Move> moves) {
  ASSERT(state_ == SwapState::kIdle);
  ASSERT(moves.size() <= swaps_.size());
  if (moves.empty()) return {};
  n_moves_ = moves.size();
  bool saving = false;
  for (size_t i = 0; i < moves.size(); i++) {
    Swap& swap = swaps_[i];
    swap.in = moves[i].in;
    swap.out = moves[i].out;
    swap.slot = spec_.cache.slot(swap.out);
    ASSERT(swap.slot >= 0);
    // What RAM has anyway (an expert of a lend region) needs no place there, and what does not come from RAM leaves
    // none: the file has both.
    swap.exchanged = spec_.resident != nullptr && spec_.resident->holds(swap.in) && !spec_.resident->holds(swap.out);
    if (!swap.exchanged || mutated(Mutation::kSwapWithoutSaving)) continue;
    stream_->copy(*swap.saved, 0, *spec_.cache.slots().memory, slot_offset(swap), blob_bytes(swap));
    saving = true;
  }
  state_ = SwapState::kSaving;
  return saving ? Status() : advance();
}

Status ExpertSwaps::advance() {
  if (state_ == SwapState::kIdle) return {};
  Status status = wait_for_copies();
  switch (state_) {
    case SwapState::kSaving:
      if (status.ok()) return withdraw();
      state_ = SwapState::kIdle;
      return status;
    case SwapState::kUploading:
      if (status.ok()) return commit();
      queue_way_back();
      return status;
    case SwapState::kLanded:
      return commit();
    default:
      if (status.ok()) return restore();
      queue_way_back();
      return status;
  }
}

Status ExpertSwaps::settle() {
  Status status;
  for (int i = 0; i < kSettleTries && state_ != SwapState::kIdle; i++) status = advance();
  if (state_ != SwapState::kIdle) return status;
  return {};
}

// Afterwards the stream is ready for the next copies.
Status ExpertSwaps::wait_for_copies() {
  Status status = stream_->synchronize();
  if (!status.ok()) stream_->reset();
  return status;
}

Status ExpertSwaps::withdraw() {
  slots_.clear();
  for (Swap& swap : batch()) {
    if (swap.exchanged) spec_.resident->begin_exchange(swap.out, swap.in, *swap.saved, 0);
    slots_.push_back(swap.slot);
  }
  if (Status status = spec_.cache.withdraw(slots_); !status.ok()) {
    spec_.compute.reset();
    for (Swap& swap : batch()) {
      if (swap.exchanged) spec_.resident->cancel_exchange(swap.out);
    }
    state_ = SwapState::kIdle;
    return status;
  }
  queue_uploads();
  return {};
}

void ExpertSwaps::queue_uploads() {
  for (const Swap& swap : batch()) queue_upload(swap, swap.in, swap.read_in);
  state_ = SwapState::kUploading;
}

// What stays where it is in page-locked memory is copied from there. One buffer serves all others: a read runs after
// what was queued before it, the copy out of the buffer included.
void ExpertSwaps::queue_upload(const Swap& swap, ExpertKey key, const device::HostTask& read) {
  Lease::HostPlace from = spec_.source.pinned_place(key);
  if (from.buffer == nullptr) {
    stream_->wait(stream_->host_task(read));
    from = {staged_.get(), 0};
  }
  stream_->copy(*spec_.cache.slots().memory, slot_offset(swap), *from.buffer, from.offset, blob_bytes(swap));
  spec_.stats.add(Counter::kCacheUploads);
  spec_.stats.add(Counter::kCacheUploadBytes, static_cast<int64_t>(spec_.layout.layer(key.layer).blob_bytes()));
}

Status ExpertSwaps::read(ExpertKey key) {
  const LayerLayout& layer = spec_.layout.layer(key.layer);
  Lease lease;
  RETURN_IF_ERROR(spec_.source.fetch({&key, 1}, {&lease, 1}));
  const auto to = staged_->write<std::byte>(0, layer.blob_bytes());
  for (size_t i = 0; i < layer.parts.size(); i++) {
    const int part = static_cast<int>(i);
    std::memcpy(to.span().data() + layer.part_offset(part), lease.part(part), layer.parts[i].bytes);
  }
  return spec_.source.health();
}

Status ExpertSwaps::place(ExpertKey Swap::*expert) {
  placed_.clear();
  for (const Swap& swap : batch()) placed_.push_back({swap.slot, swap.*expert});
  Status status = spec_.cache.place(placed_);
  if (!status.ok()) spec_.compute.reset();
  return status;
}

Status ExpertSwaps::commit() {
  state_ = SwapState::kLanded;
  RETURN_IF_ERROR(place(&Swap::in));
  for (Swap& swap : batch()) {
    if (swap.exchanged) spec_.resident->commit_exchange(swap.out);
  }
  spec_.stats.add(Counter::kCacheSwaps, static_cast<int64_t>(n_moves_));
  state_ = SwapState::kIdle;
  return {};
}

void ExpertSwaps::queue_way_back() {
  for (Swap& swap : batch()) {
    if (swap.exchanged) {
      stream_->copy(*spec_.cache.slots().memory, slot_offset(swap), *swap.saved, 0, blob_bytes(swap));
    } else {
      queue_upload(swap, swap.out, swap.read_out);
    }
  }
  state_ = SwapState::kRestoring;
}

Status ExpertSwaps::restore() {
  RETURN_IF_ERROR(place(&Swap::out));
  for (Swap& swap : batch()) {
    if (swap.exchanged) spec_.resident->cancel_exchange(swap.out);
  }
  spec_.stats.add(Counter::kCacheSwapsUndone, static_cast<int64_t>(n_moves_));
  state_ = SwapState::kIdle;
  return {};
}

}  // namespace strata::experts
