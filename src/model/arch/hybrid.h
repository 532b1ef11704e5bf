// What the architectures share whose layers are gated delta nets but for every n-th, which is attention.
#pragma once

#include <variant>

#include "model/arch/layered.h"
#include "model/blocks/attention.h"
#include "model/blocks/delta_net.h"

namespace strata::model {

// Attention or delta net, by layer.
class HybridMixer {
 public:
  HybridMixer() = default;
  explicit HybridMixer(AttentionBlock block) : block_(std::move(block)) {}
  explicit HybridMixer(DeltaNetBlock block) : block_(std::move(block)) {}
  void declare(const HParams& hp, Activations& act) const {
    std::visit([&](const auto& block) { block.declare(hp, act); }, block_);
  }
  void enqueue(const StepContext& ctx, int layer) const {
    std::visit([&](const auto& block) { block.enqueue(ctx, layer); }, block_);
  }

 private:
  std::variant<AttentionBlock, DeltaNetBlock> block_;
};

// Reads the keys ssm.* and which layers are recurrent (attention.recurrent_layers, else all but each
// full_attention_interval-th one, of four where the file does not say), and the width of the shared expert, which is
// required. `tiled`: value head h uses key head h % n_key_heads.
Status read_hybrid(const Keys& keys, bool tiled, HParams& hp);

// Layers of gated attention and delta nets with one residual stream, each with experts and a gated shared expert.
Result<std::unique_ptr<Network>> build_hybrid(const NetworkSpec& spec, const DeltaNetOptions& delta);

// Checks rope.dimension_sections, which has to be there: which of the positions in time, height, width and a fourth
// turns which of the rotated pairs (interleaved: pair p the position p % 3). For text the first three are the position
// of the token, so that the sections change nothing unless they leave pairs to the fourth; such files are refused.
Status check_text_sections(const Keys& keys, const HParams& hp);

}  // namespace strata::model
