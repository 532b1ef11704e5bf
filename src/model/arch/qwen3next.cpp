// qwen3next: Qwen3-Next-80B-A3B. Three delta-net layers for each layer of gated attention, softmax routing renormalised
// over the chosen experts, and a gated shared expert.
#include "model/arch/hybrid.h"
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen3next"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  RETURN_IF_ERROR(read_hybrid(keys, false, hp));
  return hp;
}

Result<HybridMixer> load_mixer(const NetworkSpec& spec, const std::string& prefix, int layer) {
  if (spec.hp.recurrent[static_cast<size_t>(layer)]) {
    ASSIGN_OR_RETURN(DeltaNetBlock block, DeltaNetBlock::load(spec, prefix, {.grouped_gates = true}));
    return HybridMixer(std::move(block));
  }
  ASSIGN_OR_RETURN(AttentionBlock block, AttentionBlock::load(spec, prefix, {.gated = true, .q_k_norm = true}));
  return HybridMixer(std::move(block));
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_layered<HybridMixer>(spec, {.output_required = false,
                                           .moe = {.norm = "post_attention_norm.weight", .shared_gate = true},
                                           .load_mixer = load_mixer});
}

}  // namespace

const ArchInfo kQwen3Next{"qwen3next", read, build};

}  // namespace strata::model
