// qwen3moe: Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder. Grouped-query attention with per-head norms on queries and
// keys, softmax routing renormalised over the chosen experts.
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen3moe"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_attention_layers(spec, {}, {.q_k_norm = true});
}

}  // namespace

const ArchInfo kQwen3Moe{"qwen3moe", read, build};

}  // namespace strata::model
