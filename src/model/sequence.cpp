#include "model/sequence.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/format.h"

namespace strata::model {
namespace {

constexpr FixedState kFixedStates[] = {FixedState::kConv, FixedState::kDelta, FixedState::kIndexTail,
                                       FixedState::kNgram};
static_assert(std::size(kFixedStates) == static_cast<size_t>(FixedState::kCount));

const char* fixed_state_name(FixedState which) {
  switch (which) {
    case FixedState::kConv: return "convolution state";
    case FixedState::kDelta: return "recurrent state";
    case FixedState::kIndexTail: return "index tail";
    case FixedState::kNgram: return "n-gram state";
    case FixedState::kCount: break;
  }
  return "";
}

// Keys of the index of a layer; 0: it has none.
int64_t index_keys(const HParams& hp, int layer, const StateLimits& limits) {
  const int block = hp.index_block(layer);
  return block > 0 ? int64_t{limits.n_blocks()} * (kBlockTokens / block) : 0;
}

}  // namespace

int64_t fixed_columns(const HParams& hp, int layer, FixedState which) {
  const bool recurrent = hp.recurrent[static_cast<size_t>(layer)];
  const int index_block = hp.index_block(layer);
  switch (which) {
    case FixedState::kConv: return recurrent ? hp.delta.conv_state() : 0;
    case FixedState::kDelta: return recurrent ? hp.delta.state() : 0;
    case FixedState::kIndexTail: return index_block > 0 ? int64_t{index_block - 1} * hp.indexer.key_dim : 0;
    case FixedState::kNgram: return layer == hp.ngram.layer ? hp.ngram.state() : 0;
    case FixedState::kCount: break;
  }
  return 0;
}

bool keeps_fixed_state(const HParams& hp) {
  for (int layer = 0; layer < hp.n_layers; layer++) {
    for (const FixedState which : kFixedStates) {
      if (fixed_columns(hp, layer, which) > 0) return true;
    }
  }
  return false;
}

device::KvBlocks StateMemory::kv_shape(const HParams& hp, const StateLimits& limits, kernels::KvType kv_type) {
  return {.k = nullptr,
          .v = nullptr,
          .type = kv_type,
          .block_tokens = kBlockTokens,
          .n_blocks = limits.n_blocks(),
          .n_kv_heads = hp.n_kv_heads,
          .key_dim = hp.key_dim,
          .value_dim = hp.value_dim,
          .values_in_keys = hp.latent.used()};
}

Status StateMemory::check_type(const HParams& hp, kernels::KvType kv_type) {
  const int block = kernels::kv_block(kv_type);
  if (hp.key_dim % block == 0 && hp.value_dim % block == 0) return {};
  std::string fitting;
  for (const kernels::KvType type : kernels::kKvTypes) {
    if (kernels::kv_block(type) != 1) continue;
    fitting += format("{}{}", fitting.empty() ? "" : ", ", kernels::kv_type_name(type));
  }
  const std::string what = hp.latent.used()
                               ? format("a token's {} values, {} of them latent,", hp.key_dim, hp.value_dim)
                               : format("a head's {} keys and {} values", hp.key_dim, hp.value_dim);
  return Error{ErrorCode::kUnsupported,
               format("--kv-type {} keeps values in blocks of {}, which {} do not divide into; use one of {}",
                      kernels::kv_type_name(kv_type), block, what, fitting)};
}

size_t StateMemory::token_bytes(const HParams& hp, kernels::KvType kv_type) {
  return kv_shape(hp, {}, kv_type).token_bytes();
}

uint64_t StateMemory::bytes_needed(const HParams& hp, int first, int last, const StateLimits& limits,
                                   kernels::KvType kv_type) {
  const uint64_t attention = static_cast<uint64_t>(limits.n_blocks()) * kBlockTokens * token_bytes(hp, kv_type);
  const uint64_t slots = static_cast<uint64_t>(limits.max_sequences) + static_cast<uint64_t>(limits.max_checkpoints);
  uint64_t total = 0;
  for (int l = first; l < last; l++) {
    if (!hp.recurrent[static_cast<size_t>(l)]) total += attention;
    total += static_cast<uint64_t>(index_keys(hp, l, limits) * hp.indexer.key_dim) * sizeof(float);
    for (const FixedState which : kFixedStates) {
      total += slots * static_cast<uint64_t>(fixed_columns(hp, l, which)) * sizeof(float);
    }
  }
  return total;
}

Result<std::unique_ptr<StateMemory>> StateMemory::create(device::Device& device, const HParams& hp, int first, int last,
                                                         const StateLimits& limits, kernels::KvType kv_type) {
  auto memory = std::make_unique<StateMemory>();
  memory->first_ = first;
  const int64_t slots = limits.max_sequences + limits.max_checkpoints;
  for (int l = first; l < last; l++) {
    Layer layer;
    const auto allocate = [&](size_t bytes, const char* what) -> Result<device::Buffer*> {
      ASSIGN_OR_RETURN(auto buffer, device.allocate(bytes, format("the {} of layer {}", what, l)));
      layer.buffers.push_back(std::move(buffer));
      return layer.buffers.back().get();
    };
    for (const FixedState which : kFixedStates) {
      const int64_t cols = fixed_columns(hp, l, which);
      if (cols == 0) continue;
      memory->has_fixed_state_ = true;
      ASSIGN_OR_RETURN(device::Buffer * buffer,
                       allocate(static_cast<size_t>(slots * cols) * sizeof(float), fixed_state_name(which)));
      layer.fixed[static_cast<size_t>(which)] = device::view_of<float>(*buffer, slots, cols);
    }
    if (!hp.recurrent[static_cast<size_t>(l)]) {
      layer.kv = kv_shape(hp, limits, kv_type);
      const size_t tokens = static_cast<size_t>(limits.n_blocks()) * kBlockTokens;
      ASSIGN_OR_RETURN(layer.kv.k, allocate(tokens * layer.kv.k_token_bytes(), "keys"));
      if (layer.kv.values_in_keys) {
        layer.kv.v = layer.kv.k;
      } else {
        ASSIGN_OR_RETURN(layer.kv.v, allocate(tokens * layer.kv.v_token_bytes(), "values"));
      }
    }
    if (const int64_t n_keys = index_keys(hp, l, limits); n_keys > 0) {
      ASSIGN_OR_RETURN(device::Buffer * buffer,
                       allocate(static_cast<size_t>(n_keys * hp.indexer.key_dim) * sizeof(float), "index keys"));
      layer.index = {.keys = device::view_of<float>(*buffer, n_keys, hp.indexer.key_dim),
                     .kv_block_tokens = kBlockTokens,
                     .block = hp.index_block(l)};
    }
    memory->layers_.push_back(std::move(layer));
  }
  return memory;
}

void StateMemory::clear_slot(device::Stream& stream, int slot) const {
  for (const Layer& layer : layers_) {
    for (const device::View<float>& view : layer.fixed) {
      if (view.empty()) continue;
      const size_t bytes = static_cast<size_t>(view.cols) * sizeof(float);
      stream.fill_zero(*view.memory, static_cast<size_t>(slot) * bytes, bytes);
    }
  }
}

void StateMemory::copy_slot(device::Stream& stream, int to, int from) const {
  for (const Layer& layer : layers_) {
    for (const device::View<float>& view : layer.fixed) {
      if (view.empty()) continue;
      const size_t bytes = static_cast<size_t>(view.cols) * sizeof(float);
      stream.copy(*view.memory, static_cast<size_t>(to) * bytes, *view.memory, static_cast<size_t>(from) * bytes,
                  bytes);
    }
  }
}

SequencePool::SequencePool(const StateLimits& limits, std::vector<PartState> parts, Stats& stats)
    : limits_(limits), parts_(std::move(parts)), stats_(stats) {
  // Taken from the back: the lowest numbers go first.
  for (int i = limits.max_sequences; i-- > 0;) free_slots_.push_back(i);
  for (int i = limits.max_checkpoints; i-- > 0;) free_checkpoints_.push_back(limits.max_sequences + i);
  for (int i = limits.n_blocks(); i-- > 0;) free_blocks_.push_back(i);
}

Result<SequenceState> SequencePool::make_sequence() {
  if (free_slots_.empty()) {
    return Error{ErrorCode::kNoMemory, format("all {} sequences are in use", limits_.max_sequences)};
  }
  SequenceState sequence(this, free_slots_.back());
  free_slots_.pop_back();
  sequence.blocks_.reserve(static_cast<size_t>(limits_.blocks_per_sequence()));
  sequence.ids_.reserve(static_cast<size_t>(limits_.max_tokens));
  clear_slot(sequence.slot_);
  return sequence;
}

bool SequencePool::has_fixed_state() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const PartState& p) { return p.memory->has_fixed_state(); });
}
void SequencePool::clear_slot(int slot) {
  for (const PartState& part : parts_) part.memory->clear_slot(*part.stream, slot);
}
void SequencePool::copy_slot(int to, int from) {
  for (const PartState& part : parts_) part.memory->copy_slot(*part.stream, to, from);
}

SequenceState::SequenceState(SequenceState&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      slot_(other.slot_),
      n_tokens_(other.n_tokens_),
      lost_(other.lost_),
      failure_(std::move(other.failure_)),
      blocks_(std::move(other.blocks_)),
      ids_(std::move(other.ids_)),
      checkpoints_(std::move(other.checkpoints_)) {}

SequenceState::~SequenceState() {
  if (pool_ == nullptr) return;
  while (!checkpoints_.empty()) drop_checkpoint(checkpoints_.back().id);
  release_blocks_from(0);
  pool_->free_slots_.push_back(slot_);
}

bool SequenceState::has_fixed_state() const { return pool_->has_fixed_state(); }

void SequenceState::note_ids(int64_t position, std::span<const int32_t> ids) {
  ASSERT(position <= std::ssize(ids_));
  ASSERT(position + std::ssize(ids) <= pool_->limits_.max_tokens);
  ids_.resize(static_cast<size_t>(position));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

Status SequenceState::check_room(int64_t n) const {
  const int64_t total = n_tokens_ + n;
  if (total > pool_->limits_.max_tokens) {
    return Error{ErrorCode::kBadInput, format("{} tokens exceed the context of {}; raise --ctx or shorten the prompt",
                                              total, pool_->limits_.max_tokens)};
  }
  return {};
}

Status SequenceState::reserve(int64_t n) {
  RETURN_IF_ERROR(check_room(n));
  const int64_t total = n_tokens_ + n;
  // The pool has blocks for max_tokens of every sequence, so they can't run out here.
  while (static_cast<int64_t>(blocks_.size()) * kBlockTokens < total) {
    ASSERT(!pool_->free_blocks_.empty());
    blocks_.push_back(pool_->free_blocks_.back());
    pool_->free_blocks_.pop_back();
    pool_->stats_.add(Counter::kKvBlocksUsed);
  }
  return {};
}

void SequenceState::release_blocks_from(int64_t n) {
  const size_t keep = static_cast<size_t>((n + kBlockTokens - 1) / kBlockTokens);
  while (blocks_.size() > keep) {
    pool_->free_blocks_.push_back(blocks_.back());
    blocks_.pop_back();
    pool_->stats_.add(Counter::kKvBlocksUsed, -1);
  }
}

Result<int> SequenceState::checkpoint() {
  if (pool_->free_checkpoints_.empty()) {
    return Error{ErrorCode::kNoMemory, format("all {} checkpoints are in use", pool_->limits_.max_checkpoints)};
  }
  const int id = pool_->free_checkpoints_.back();
  pool_->free_checkpoints_.pop_back();
  pool_->copy_slot(id, slot_);
  checkpoints_.push_back({id, n_tokens_});
  return id;
}

Status SequenceState::checkpoint_dropping_oldest() {
  if (pool_->free_checkpoints_.empty() && !checkpoints_.empty()) drop_checkpoint(checkpoints_.front().id);
  ASSIGN_OR_RETURN(const int id, checkpoint());
  static_cast<void>(id);
  return {};
}

Status SequenceState::restore(int checkpoint) {
  for (const Checkpoint& c : checkpoints_) {
    if (c.id != checkpoint) continue;
    pool_->copy_slot(slot_, c.id);
    // Keys and values before the checkpoint are as they were: tokens are only ever appended, and going back below it
    // would have dropped it.
    n_tokens_ = c.n_tokens;
    lost_ = false;
    failure_ = {};
    drop_checkpoints_after(n_tokens_);
    release_blocks_from(n_tokens_);
    return {};
  }
  return Error{ErrorCode::kBadInput, format("checkpoint {} is not one of this sequence, or was overtaken", checkpoint)};
}

void SequenceState::drop_checkpoint(int checkpoint) {
  const auto at =
      std::find_if(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& c) { return c.id == checkpoint; });
  ASSERT(at != checkpoints_.end());
  pool_->free_checkpoints_.push_back(at->id);
  checkpoints_.erase(at);
}

void SequenceState::drop_checkpoints_after(int64_t n) {
  for (size_t i = checkpoints_.size(); i-- > 0;) {
    if (checkpoints_[i].n_tokens > n) drop_checkpoint(checkpoints_[i].id);
  }
}

bool SequenceState::can_truncate(int64_t n) const {
  if (n < 0 || n > n_tokens_) return false;
  if ((n == n_tokens_ && !lost_) || n == 0 || !has_fixed_state()) return true;
  return std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& c) { return c.n_tokens == n; });
}

Status SequenceState::truncate(int64_t n) {
  if (!can_truncate(n)) {
    return Error{ErrorCode::kBadInput,
                 format("cannot go back from {} tokens to {}: recurrent layers keep no history and no "
                        "checkpoint was taken there",
                        n_tokens_, n)};
  }
  drop_checkpoints_after(n);
  if (n == n_tokens_ && !lost_) return {};
  const auto at =
      std::find_if(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& c) { return c.n_tokens == n; });
  if (at != checkpoints_.end()) {
    pool_->copy_slot(slot_, at->id);
  } else if (n == 0) {
    pool_->clear_slot(slot_);
  }
  n_tokens_ = n;
  lost_ = false;
  failure_ = {};
  release_blocks_from(n);
  return {};
}

}  // namespace strata::model
