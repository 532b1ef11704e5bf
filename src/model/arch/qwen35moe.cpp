// qwen35moe: Qwen3.5-35B-A3B, 122B-A10B, 397B-A17B. As qwen3next, but with value heads in turns for each key head, two
// matrices for the gates of the delta net, and rope by sections, which in text is rope.
#include "model/arch/hybrid.h"
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen35moe"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  RETURN_IF_ERROR(check_text_sections(keys, hp));
  RETURN_IF_ERROR(read_hybrid(keys, true, hp));
  return hp;
}

Result<HybridMixer> load_mixer(const NetworkSpec& spec, const std::string& prefix, int layer) {
  if (spec.hp.recurrent[static_cast<size_t>(layer)]) {
    ASSIGN_OR_RETURN(DeltaNetBlock block, DeltaNetBlock::load(spec, prefix, {}));
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

const ArchInfo kQwen35Moe{"qwen35moe", read, build};

}  // namespace strata::model
