// qwen3next: Qwen3-Next-80B-A3B. Three delta-net layers for each layer of gated attention, softmax routing renormalised
// over the chosen experts, and a gated shared expert.
#include <variant>

#include "model/arch/layered.h"
#include "model/blocks/attention.h"
#include "model/blocks/delta_net.h"

namespace strata::model {
namespace {

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

Result<device::DeltaShape> read_delta(const Keys& keys) {
  constexpr int64_t kMaxState = 1024;
  device::DeltaShape s;
  ASSIGN_OR_RETURN(const int64_t kernel, keys.require_int("ssm.conv_kernel", 2, 64));
  ASSIGN_OR_RETURN(const int64_t state, keys.require_int("ssm.state_size", 1, kMaxState));
  ASSIGN_OR_RETURN(const int64_t key_heads, keys.require_int("ssm.group_count", 1, kMaxHeads));
  ASSIGN_OR_RETURN(const int64_t value_heads, keys.require_int("ssm.time_step_rank", 1, kMaxHeads));
  ASSIGN_OR_RETURN(const int64_t inner, keys.require_int("ssm.inner_size", 1, kMaxHeads * kMaxState));
  if (value_heads % key_heads != 0 || inner != value_heads * state) {
    return Error{
        ErrorCode::kBadInput,
        format("{}: keys {}: inner_size {} has to be time_step_rank {} x state_size {}, and time_step_rank a multiple "
               "of group_count {}",
               keys.model().path(), keys.full("ssm.*"), inner, value_heads, state, key_heads)};
  }
  s.kernel = static_cast<int>(kernel);
  s.key_dim = s.value_dim = static_cast<int>(state);
  s.n_key_heads = static_cast<int>(key_heads);
  s.n_value_heads = static_cast<int>(value_heads);
  return s;
}

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen3next"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  ASSIGN_OR_RETURN(hp.delta, read_delta(keys));
  ASSIGN_OR_RETURN(const int64_t ffn, keys.uniform_int_or("feed_forward_length", 0, 0, kMaxFfn));
  ASSIGN_OR_RETURN(hp.shared_ffn, keys.uniform_int_or("expert_shared_feed_forward_length", ffn, 1, kMaxFfn));
  if (hp.shared_ffn == 0) return keys.require_int("expert_shared_feed_forward_length", 1, kMaxFfn).error();
  ASSIGN_OR_RETURN(hp.recurrent, keys.layer_flags("attention.recurrent_layers", hp.n_layers));
  if (hp.recurrent.empty()) {
    ASSIGN_OR_RETURN(const int64_t interval, keys.int_or("full_attention_interval", 4, 1, kMaxLayers));
    for (int i = 0; i < hp.n_layers; i++) hp.recurrent.push_back((i + 1) % interval != 0);
  }
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
