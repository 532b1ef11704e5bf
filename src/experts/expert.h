// Experts, their blobs and where each byte of them lies in the model's files.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "gguf/gguf.h"
#include "quant/type.h"

namespace strata::experts {

struct ExpertKey {
  int32_t layer = -1;
  int32_t expert = -1;
  auto operator<=>(const ExpertKey&) const = default;
};

// What a blob can consist of. A layer has gate and up, or gate_up (gate rows first); biases and scales are optional.
enum class PartKind { kGate, kUp, kGateUp, kDown, kGateBias, kUpBias, kDownBias, kGateScale, kUpScale, kDownScale };
inline constexpr int kPartKinds = 10;
inline constexpr int kMaxParts = 9;

// One part of the blobs of a layer: type and shape are the layer's, the place is each expert's own.
struct BlobPart {
  PartKind kind;
  quant::Type type;
  int64_t rows;  // matrices: outputs; vectors and scales: 1
  int64_t cols;  // contiguous
  size_t row_bytes;
  size_t bytes;  // rows * row_bytes
  struct Place {
    int32_t shard;
    uint64_t offset;  // in that file
  };
  std::vector<Place> places;  // [n_experts]
};

// The experts of one MoE layer.
struct LayerLayout {
  int32_t n_experts = 0;  // 0: the layer has none (a dense layer)
  std::vector<BlobPart> parts;

  const BlobPart* find(PartKind kind) const;
  // Index into parts, or -1.
  int index(PartKind kind) const;
  // Bytes of one blob with every part starting at a multiple of kPartAlignment.
  size_t blob_bytes() const;
  // Where part i starts in such a blob.
  size_t part_offset(int i) const;
};
inline constexpr size_t kPartAlignment = 64;

// Where all experts of a model lie. Immutable.
class ExpertLayout {
 public:
  // Looks for the merged tensors of each layer (blk.N.ffn_gate_exps.weight, ffn_up_exps, ffn_down_exps or the fused
  // ffn_gate_up_exps, with .bias and .scale under the three separate names) and for the old form of one tensor per
  // expert (blk.N.ffn_gate.E.weight). Shapes have to be dim x ffn x n_experts as given; kBadInput names tensor, found
  // and expected shape.
  static Result<ExpertLayout> from_model(const gguf::Model& model, int n_layers, int64_t dim, int64_t ffn,
                                         int64_t n_experts);

  const std::vector<LayerLayout>& layers() const { return layers_; }
  const LayerLayout& layer(int32_t layer) const { return layers_[static_cast<size_t>(layer)]; }
  uint64_t total_bytes() const;  // of all blobs, aligned
  size_t largest_blob_bytes() const;
  // Experts of all layers, and the number of one of them, layer after layer: for arrays with an element for each.
  size_t n_experts() const {
    return layers_.empty() ? 0 : first_.back() + static_cast<size_t>(layers_.back().n_experts);
  }
  size_t index(ExpertKey key) const {
    ASSERT(key.layer >= 0);
    ASSERT(static_cast<size_t>(key.layer) < layers_.size());
    ASSERT(key.expert >= 0);
    ASSERT(key.expert < layer(key.layer).n_experts);
    return first_[static_cast<size_t>(key.layer)] + static_cast<size_t>(key.expert);
  }
  // Where a blob begins when all of them, total_bytes(), stand one behind the other in that order.
  uint64_t packed_offset(ExpertKey key) const {
    return offsets_[static_cast<size_t>(key.layer)] +
           layer(key.layer).blob_bytes() * static_cast<uint64_t>(key.expert);
  }

 private:
  std::vector<LayerLayout> layers_;
  std::vector<size_t> first_;      // [layers] experts of the layers before
  std::vector<uint64_t> offsets_;  // [layers] bytes of their blobs
};

}  // namespace strata::experts
