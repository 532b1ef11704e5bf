// qwen2moe: Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B. Grouped-query attention with biases on queries, keys and values, softmax
// routing whose weights stay as they are, and a gated shared expert.
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen2moe"));
  hp.route.gating = kernels::Gating::kSoftmax;
  ASSIGN_OR_RETURN(const int64_t ffn, keys.uniform_int_or("feed_forward_length", 0, 0, kMaxFfn));
  ASSIGN_OR_RETURN(hp.shared_ffn, keys.uniform_int_or("expert_shared_feed_forward_length", ffn, 1, kMaxFfn));
  if (hp.shared_ffn == 0) return keys.require_int("expert_shared_feed_forward_length", 1, kMaxFfn).error();
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_attention_layers(spec, {.output_required = true, .moe = {.shared_gate = true}}, {.input_biases = true});
}

}  // namespace

const ArchInfo kQwen2Moe{"qwen2moe", read, build};

}  // namespace strata::model
