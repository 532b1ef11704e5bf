// The state of sequences: KV blocks, and for recurrent layers a fixed amount per sequence. Bookkeeping of slots and
// blocks is common to all parts of a model; each part keeps the memory of its own layers (StateMemory).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/stats.h"
#include "device/device.h"
#include "model/hparams.h"

namespace strata::model {

inline constexpr int kBlockTokens = 32;  // tokens of a KV block

struct StateLimits {
  int max_sequences = 1;
  int max_checkpoints = 0;  // of all sequences together; only recurrent models spend memory on them
  int64_t max_tokens = 0;   // of one sequence: the context
  int blocks_per_sequence() const { return static_cast<int>((max_tokens + kBlockTokens - 1) / kBlockTokens); }
  int n_blocks() const { return max_sequences * blocks_per_sequence(); }
};

// What a layer keeps of a sequence in a fixed number of floats, whatever its length.
enum class FixedState {
  kConv,   // the last inputs of the delta net's convolution
  kDelta,  // the delta net's matrices
  kIndexTail,  // keys of the index of sparse attention for the tokens behind the last complete block
  kNgram,  // the last inputs of the n-gram features' convolution
  kCount,
};
// Floats of it that a layer keeps for one sequence; 0: none.
int64_t fixed_columns(const HParams& hp, int layer, FixedState which);
// Whether some layer of the model keeps any, so that sequences can go back to checkpoints only.
bool keeps_fixed_state(const HParams& hp);

// The memory that the sequences of one part take on its device, for the layers [first, last).
class StateMemory {
 public:
  static Result<std::unique_ptr<StateMemory>> create(device::Device& device, const HParams& hp, int first, int last,
                                                     const StateLimits& limits, kernels::KvType kv_type);

  // Whether the heads of the model can be kept in elements of this type: kUnsupported where they do not divide into its
  // blocks, naming the sizes and the types that work. What follows takes a type that has passed.
  static Status check_type(const HParams& hp, kernels::KvType kv_type);

  // Of a token in the cache of one attention layer.
  static size_t token_bytes(const HParams& hp, kernels::KvType kv_type);
  // What create() allocates.
  static uint64_t bytes_needed(const HParams& hp, int first, int last, const StateLimits& limits,
                               kernels::KvType kv_type);

  const device::KvBlocks& kv(int layer) const { return layers_[static_cast<size_t>(layer - first_)].kv; }
  // [slots][fixed_columns] of a layer that has it; slots past max_sequences hold checkpoints.
  device::View<float> fixed(int layer, FixedState which) const {
    return layers_[static_cast<size_t>(layer - first_)].fixed[static_cast<size_t>(which)];
  }
  // Of a layer with sparse attention.
  const device::BlockIndex& index(int layer) const { return layers_[static_cast<size_t>(layer - first_)].index; }
  bool has_fixed_state() const { return has_fixed_state_; }

  void clear_slot(device::Stream& stream, int slot) const;
  void copy_slot(device::Stream& stream, int to, int from) const;

 private:
  // The shape of an attention layer's cache, without memory.
  static device::KvBlocks kv_shape(const HParams& hp, const StateLimits& limits, kernels::KvType kv_type);
  struct Layer {
    device::KvBlocks kv;
    device::BlockIndex index;
    std::array<device::View<float>, static_cast<size_t>(FixedState::kCount)> fixed;
    std::vector<std::unique_ptr<device::Buffer>> buffers;
  };
  int first_ = 0;
  bool has_fixed_state_ = false;
  std::vector<Layer> layers_;
};

class SequencePool;

// One sequence. Movable; gives its blocks, slot and checkpoints back when destroyed. Owned and used by one thread.
class SequenceState {
 public:
  SequenceState(SequenceState&& other) noexcept;
  SequenceState& operator=(SequenceState&&) = delete;
  ~SequenceState();

  int slot() const { return slot_; }
  int64_t n_tokens() const { return n_tokens_; }
  const std::vector<int32_t>& blocks() const { return blocks_; }

  // Whether reserve(n) would succeed; changes nothing.
  Status check_room(int64_t n) const;
  // Blocks for n more tokens. kBadInput when the context would be exceeded; nothing changes then.
  Status reserve(int64_t n);
  // n tokens were computed.
  void advance(int64_t n) { n_tokens_ += n; }
  // A step failed half-way: recurrent layers that it went through have moved on. The sequence is lost() until it is
  // restored or truncated to 0 or a checkpoint. Attention-only models lose nothing: the rows are overwritten.
  void step_failed() { lost_ = lost_ || has_fixed_state(); }
  bool lost() const { return lost_; }
  // This sequence's part of a step failed, and that of no other: it is lost(), whatever the model, and has the error.
  void fail(Error error) {
    lost_ = true;
    failure_ = std::move(error);
  }
  // The error, until the sequence is restored or truncated.
  const Status& failure() const { return failure_; }

  // These tokens are computed at `position` and behind: what was there is forgotten. At most max_tokens in all.
  void note_ids(int64_t position, std::span<const int32_t> ids);
  // The tokens that the sequence has, those of steps on their way behind them, as far as they were noted.
  std::span<const int32_t> ids() const { return ids_; }

  // Remembers the state after n_tokens(); returns its id. kNoMemory when all checkpoints are in use.
  Result<int> checkpoint();
  // A checkpoint after n_tokens(), at the cost of this sequence's oldest one when all are in use.
  Status checkpoint_dropping_oldest();
  // Back to a checkpoint of this sequence; it stays usable. kBadInput for one that going back, by truncation or by
  // restoring an earlier one, has overtaken.
  Status restore(int checkpoint);
  void drop_checkpoint(int checkpoint);

  // Whether truncate(n) would succeed: always for attention-only models; else for the present length (unless lost()),
  // 0, and lengths at which a checkpoint was taken.
  bool can_truncate(int64_t n) const;
  // Forgets the tokens from position n on, and the checkpoints after it. kBadInput when !can_truncate(n).
  Status truncate(int64_t n);

 private:
  friend class SequencePool;
  SequenceState(SequencePool* pool, int slot) : pool_(pool), slot_(slot) {}
  void release_blocks_from(int64_t n);
  void drop_checkpoints_after(int64_t n);
  bool has_fixed_state() const;

  struct Checkpoint {
    int id;
    int64_t n_tokens;
  };
  SequencePool* pool_;
  int slot_;
  int64_t n_tokens_ = 0;
  bool lost_ = false;
  Status failure_;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> ids_;
  std::vector<Checkpoint> checkpoints_;
};

// Hands out slots, blocks and checkpoints. Must outlive its sequences. One thread.
class SequencePool {
 public:
  // A part whose memory takes part in clearing, checkpoints and restores, with the stream that orders it.
  struct PartState {
    const StateMemory* memory;
    device::Stream* stream;
  };
  SequencePool(const StateLimits& limits, std::vector<PartState> parts, Stats& stats);

  // A sequence without tokens. kNoMemory when max_sequences are in use.
  Result<SequenceState> make_sequence();

  const StateLimits& limits() const { return limits_; }
  int free_blocks() const { return static_cast<int>(free_blocks_.size()); }

 private:
  friend class SequenceState;
  bool has_fixed_state() const;
  void clear_slot(int slot);
  void copy_slot(int to, int from);

  StateLimits limits_;
  std::vector<PartState> parts_;
  Stats& stats_;
  std::vector<int> free_slots_;
  std::vector<int> free_checkpoints_;  // slot numbers past max_sequences
  std::vector<int32_t> free_blocks_;
};

}  // namespace strata::model
