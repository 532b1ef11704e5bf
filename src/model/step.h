// What a step is given and what it computes in: the inputs that change from step to step, and the activations.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "device/device.h"
#include "model/hparams.h"
#include "model/sequence.h"

namespace strata::model {

// Rows of one sequence in a step: consecutive tokens that continue it.
struct BatchRows {
  SequenceState* sequence;
  std::span<const int32_t> ids;
  int64_t position = -1;  // of the first row; -1: behind the tokens that the sequence has
  bool ends_in_logits = false;  // those of the last row will be asked for: better computed with the step than after it

  int64_t first() const { return position < 0 ? sequence->n_tokens() : position; }
  int64_t n() const { return static_cast<int64_t>(ids.size()); }
};

struct StepLimits {
  int max_rows = 1;     // rows of the layers in one step
  int max_outputs = 1;  // rows of the head in one pass
};

// The inputs of a step in fixed device buffers, so that a captured graph serves every step of its shape.
class StepInputs {
 public:
  static Result<std::unique_ptr<StepInputs>> create(device::Device& device, const StepLimits& limits,
                                                    const StateLimits& state);
  // What create() allocates on the device; and as much again of pinned host memory.
  static uint64_t bytes_needed(const StepLimits& limits, const StateLimits& state);

  // Writes a batch (rows in order of the batch, one segment per sequence), the rows that the head computes (at most
  // max_outputs) and queues their upload. Sequences have reserved their blocks; ids are in range; the rows fit
  // max_rows. The stream must have finished the step before.
  void set_batch(device::Stream& stream, std::span<const BatchRows> batch, std::span<const int32_t> outputs);
  // Chooses other rows for the head.
  void set_outputs(device::Stream& stream, std::span<const int32_t> rows);

  // Views for a bucket of `rows` rows.
  device::In<int32_t> ids(int64_t rows) const { return view(kIds, 1, rows); }
  device::RowMap row_map(int64_t rows) const;
  device::SegmentMap segments() const;
  device::In<int32_t> live() const { return count(0); }
  device::In<int32_t> output_rows(int64_t outputs) const { return view(kOutputs, 1, outputs); }
  device::In<int32_t> live_outputs() const { return count(2); }

 private:
  enum Field { kCounts, kIds, kPositions, kSlots, kSegments, kOutputs, kBlockTable, kFields };
  device::View<int32_t> view(Field field, int64_t rows, int64_t cols) const {
    return {device_ints_.get(), offsets_[field] * sizeof(int32_t), rows, cols, cols};
  }
  device::View<int32_t> count(int64_t i) const {
    return {device_ints_.get(), (offsets_[kCounts] + static_cast<size_t>(i)) * sizeof(int32_t), 1, 1, 1};
  }

  using Offsets = std::array<size_t, kFields + 1>;  // in elements; the last one is the total
  static Offsets layout(const StepLimits& limits, const StateLimits& state);

  StepLimits limits_;
  StateLimits state_;
  Offsets offsets_{};
  std::unique_ptr<device::Buffer> device_ints_;
  std::unique_ptr<device::HostBuffer> host_ints_;
};

// The intermediate values of a step, float32 unless the name says otherwise. Blocks declare the widths they need before
// the memory is allocated; blocks that don't live at the same time share a name.
enum class Act {
  kHidden,     // the residual stream, or streams
  kBranch,     // what a layer's block computes, before it goes to several streams
  kNormed,     // input of attention, delta net or experts
  kProjected,  // q | k | v of attention; the delta net's convolution input | z | b and a
  kHeads,      // query heads of latent attention
  kAbsorbed,   // the same in the space of the latent
  kMixed,      // output of attention or delta net before its output matrix; the delta net's convolved rows
  kMixedOut,   // the delta net's output rows; latent attention's heads back from the space of the latent
  kGate,       // gate rows of the shared expert
  kUp,         // up rows of the shared expert
  kDecay,      // g and beta
  kIndex,      // q | k of the indexer of sparse attention
  kChosen,     // int32, the blocks that sparse attention chose
  kStreams,    // of several residual streams: the normed ones,
  kStreamLow,  // what their gates are made from,
  kStreamGates,
  kStreamAmounts,  // and how much of a block's output each takes
  kRouterLogits,
  kExpertWeights,
  kExpertIds,  // int32
  kAheadWeights,
  kAheadIds,  // int32, a guess of the next layer's
  kShared,    // output of the shared expert
  kSharedGate,
  kNgramRows,     // of the n-gram table, as float32
  kRope,          // cos and sin
  kArrivals,      // int32, zeros between operations
  kOutputHidden,  // rows that the head computes
  kOutputNormed,
  kLogits,
  kCount,
};

class Activations {
 public:
  // Declares that `act` needs rows of `cols` elements. Before allocate().
  void need(Act act, int64_t cols);
  Status allocate(device::Device& device, const StepLimits& limits);
  // What allocate() takes.
  uint64_t bytes_needed(const StepLimits& limits) const;

  // `cols` elements of the first `rows` rows.
  device::View<float> view(Act act, int64_t rows, int64_t cols) const { return typed<float>(act, rows, cols); }
  device::View<int32_t> ints(Act act, int64_t rows, int64_t cols) const { return typed<int32_t>(act, rows, cols); }

 private:
  static constexpr size_t kActs = static_cast<size_t>(Act::kCount);
  size_t bytes_of(size_t act, const StepLimits& limits) const;
  template <class T>
  device::View<T> typed(Act act, int64_t rows, int64_t cols) const {
    const size_t i = static_cast<size_t>(act);
    ASSERT(cols <= cols_[i]);
    return device::View<T>{buffers_[i].get(), 0, rows, cols, cols_[i]};
  }
  std::array<int64_t, kActs> cols_{};
  std::array<std::unique_ptr<device::Buffer>, kActs> buffers_;
};

}  // namespace strata::model
