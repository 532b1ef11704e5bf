#include "model/arch/hybrid.h"

#include "base/format.h"

namespace strata::model {
namespace {

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

}  // namespace

Status read_hybrid(const Keys& keys, bool tiled, HParams& hp) {
  ASSIGN_OR_RETURN(hp.delta, read_delta(keys));
  hp.delta.tiled = tiled;
  ASSIGN_OR_RETURN(const int64_t ffn, keys.uniform_int_or("feed_forward_length", 0, 0, kMaxFfn));
  ASSIGN_OR_RETURN(hp.shared_ffn, keys.uniform_int_or("expert_shared_feed_forward_length", ffn, 1, kMaxFfn));
  if (hp.shared_ffn == 0) return keys.require_int("expert_shared_feed_forward_length", 1, kMaxFfn).error();
  ASSIGN_OR_RETURN(hp.recurrent, keys.layer_flags("attention.recurrent_layers", hp.n_layers));
  if (!hp.recurrent.empty()) return {};
  ASSIGN_OR_RETURN(const int64_t interval, keys.int_or("full_attention_interval", 4, 1, kMaxLayers));
  for (int i = 0; i < hp.n_layers; i++) hp.recurrent.push_back((i + 1) % interval != 0);
  return {};
}

Result<std::unique_ptr<Network>> build_hybrid(const NetworkSpec& spec, const DeltaNetOptions& delta) {
  const auto load_mixer = [&](const std::string& prefix, int layer) -> Result<HybridMixer> {
    if (spec.hp.recurrent[static_cast<size_t>(layer)]) {
      ASSIGN_OR_RETURN(DeltaNetBlock block, DeltaNetBlock::load(spec, prefix, delta));
      return HybridMixer(std::move(block));
    }
    ASSIGN_OR_RETURN(AttentionBlock block, AttentionBlock::load(spec, prefix, {.gated = true, .q_k_norm = true}));
    return HybridMixer(std::move(block));
  };
  return build_layered(spec, {.moe = {.norm = "post_attention_norm.weight", .shared_gate = true}}, load_mixer);
}

Status check_text_sections(const Keys& keys, const HParams& hp) {
  const std::string key = keys.full("rope.dimension_sections");
  const std::string& path = keys.model().path();
  const gguf::Value* value = keys.model().find(key);
  if (value == nullptr) return Error{ErrorCode::kBadInput, format("{}: key {} is missing", path, key)};
  if (!value->is_array() || value->count() != 4) {
    return Error{ErrorCode::kBadInput, format("{}: key {} needs 4 elements, one for each position of a token", path,
                                              key)};
  }
  const int64_t n_pairs = hp.rope.n_rot / 2;
  int64_t sections[4];
  for (uint64_t i = 0; i < 4; i++) {
    const Result<int64_t> section = value->as_int(i);
    if (!section.ok()) return Error{section.error().code, format("{}: key {} {}", path, key, section.error().message)};
    if (*section < 0 || *section > n_pairs) {
      return Error{ErrorCode::kBadInput, format("{}: key {} has the element {}, expected 0 to {}, the rotated pairs",
                                                path, key, *section, n_pairs)};
    }
    sections[i] = *section;
  }
  // Pair p takes its angle from position p % 3, as long as p is below three times that position's section.
  for (int64_t p = 0; p < n_pairs; p++) {
    if (p < 3 * sections[p % 3]) continue;
    return Error{ErrorCode::kUnsupported,
                 format("{}: key {} is {}, {}, {}, {}, which leaves pair {} of {} to a fourth position that text has "
                        "not",
                        path, key, sections[0], sections[1], sections[2], sections[3], p, n_pairs)};
  }
  return {};
}

}  // namespace strata::model
