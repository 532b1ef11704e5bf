// gpt-oss: 20b and 120b. Attention sinks, a sliding window on every other layer, biases everywhere, routing by a softmax
// over the chosen logits, and a clamped activation.
#include "model/arch/layered.h"
#include "model/blocks/attention.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "gpt-oss"));
  hp.route.gating = kernels::Gating::kSoftmaxSelected;
  // The released models were trained with unrounded YaRN bounds, and no key of the file says so.
  hp.rope.truncate = false;
  ASSIGN_OR_RETURN(const int64_t window, keys.require_int("attention.sliding_window", 1, kMaxContext));
  ASSIGN_OR_RETURN(const int64_t period, keys.int_or("attention.sliding_window_pattern", 2, 1, kMaxLayers));
  for (int i = 0; i < hp.n_layers; i++) hp.windows[static_cast<size_t>(i)] = i % period < period - 1 ? window : 0;
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  const experts::ExpertFormula formula{
      .activation = experts::ExpertFormula::Activation::kSwigluClamped, .alpha = 1.702f, .limit = 7.0f};
  return build_layered<AttentionBlock>(
      spec, {.ffn_norm = "post_attention_norm.weight", .output_required = true, .formula = formula,
             .load_mixer = [](const NetworkSpec& s, const std::string& prefix, int) {
               return AttentionBlock::load(s, prefix, {.sinks = true});
             }});
}

}  // namespace

const ArchInfo kGptOss{"gpt-oss", read, build};

}  // namespace strata::model
