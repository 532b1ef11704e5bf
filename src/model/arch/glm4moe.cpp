// glm4moe: GLM-4.5, GLM-4.5-Air, GLM-4.6. Grouped-query attention with biases on queries, keys and values and rope on a
// part of each head; the first layers are dense, the others have sigmoid routing with a bias on the choice, and a
// shared expert. The block behind the last layer drafts tokens and is left out (hparams.cpp: nextn_predict_layers).
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Status check_one_group(const Keys& keys) {
  ASSIGN_OR_RETURN(const int64_t groups, keys.int_or("expert_group_count", 0, 0, 1));
  static_cast<void>(groups);
  return {};
}

// Models that see images turn some pairs by rows and columns of an image, and their files order the pairs differently.
Status check_no_sections(const Keys& keys) {
  constexpr const char* kKey = "rope.dimension_sections";
  const gguf::Value* value = keys.model().find(keys.full(kKey));
  if (value == nullptr) return {};
  bool all_zero = value->is_array();
  for (uint64_t i = 0; all_zero && i < value->count(); i++) {
    const Result<int64_t> section = value->as_int(i);
    all_zero = section.ok() && *section == 0;
  }
  if (all_zero) return {};
  return Error{ErrorCode::kUnsupported,
               format("{}: key {} has sections that are not 0; models that see images are not supported",
                      keys.model().path(), keys.full(kKey))};
}

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "glm4moe"));
  RETURN_IF_ERROR(read_leading_dense(keys, hp));
  ASSIGN_OR_RETURN(hp.route.gating, read_gating(keys, kernels::Gating::kSigmoid));
  ASSIGN_OR_RETURN(hp.route.normalize, keys.bool_or("expert_weights_norm", false));
  RETURN_IF_ERROR(check_one_group(keys));
  RETURN_IF_ERROR(check_no_sections(keys));
  ASSIGN_OR_RETURN(const int64_t n_shared, keys.int_or("expert_shared_count", 0, 0, kMaxFfn / hp.expert_ffn));
  hp.shared_ffn = n_shared * hp.expert_ffn;
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_attention_layers(spec, {.moe = {.norm = "post_attention_norm.weight"}}, {.input_biases = true});
}

}  // namespace

const ArchInfo kGlm4Moe{"glm4moe", read, build};

}  // namespace strata::model
