// olmoe: OLMoE-1B-7B. Attention whose queries and keys are normed over all heads at once, softmax routing whose weights
// stay as they are.
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "olmoe", {.experts_as_wide_as_dense = true}));
  hp.route.gating = kernels::Gating::kSoftmax;
  // The one model that was released does without it, and engines differ in whether they honour it.
  ASSIGN_OR_RETURN(const double clamp, keys.float_or("attention.clamp_kqv", 0.0));
  if (clamp != 0) {
    return Error{ErrorCode::kUnsupported, format("{}: key {} is {}; clamped queries, keys and values are not supported",
                                                 keys.model().path(), keys.full("attention.clamp_kqv"), clamp)};
  }
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_attention_layers(spec, {.output_required = true}, {.q_k_norm = true, .norm_of_all_heads = true});
}

}  // namespace

const ArchInfo kOlmoe{"olmoe", read, build};

}  // namespace strata::model
