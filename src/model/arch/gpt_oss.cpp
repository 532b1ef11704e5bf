// gpt-oss: 20b and 120b. Attention sinks, a sliding window on every other layer, biases everywhere, routing by a
// softmax over the chosen logits, and a clamped activation.
#include "model/arch/layered.h"

namespace strata::model {
namespace {

// Which layers have a window: a period n (all but the last of each n layers), or one flag per layer.
Result<std::vector<bool>> read_pattern(const Keys& keys, int n_layers) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  const gguf::Value* value = keys.model().find(keys.full(kKey));
  if (value != nullptr && value->is_array()) return keys.layer_flags(kKey, n_layers);
  ASSIGN_OR_RETURN(const int64_t period, keys.int_or(kKey, 2, 1, kMaxLayers));
  std::vector<bool> windowed;
  for (int i = 0; i < n_layers; i++) windowed.push_back(i % period < period - 1);
  return windowed;
}

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "gpt-oss"));
  hp.route.gating = kernels::Gating::kSoftmaxSelected;
  // The released models were trained with unrounded YaRN bounds, and no key of the file says so.
  hp.rope.truncate = false;
  ASSIGN_OR_RETURN(const int64_t window, keys.require_int("attention.sliding_window", 1, kMaxContext));
  ASSIGN_OR_RETURN(const std::vector<bool> windowed, read_pattern(keys, hp.n_layers));
  for (size_t i = 0; i < windowed.size(); i++) hp.windows[i] = windowed[i] ? window : 0;
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  const experts::ExpertFormula formula{
      .activation = experts::ExpertFormula::Activation::kSwigluClamped, .alpha = 1.702f, .limit = 7.0f};
  const MoeOptions moe{.norm = "post_attention_norm.weight", .formula = formula, .biases = true};
  return build_attention_layers(spec, {.output_required = true, .moe = moe}, {.sinks = true, .biases = true});
}

}  // namespace

const ArchInfo kGptOss{"gpt-oss", read, build};

}  // namespace strata::model
