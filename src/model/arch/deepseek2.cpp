// deepseek2: DeepSeek V2, V2-Lite, V3, R1 and their relatives. Latent attention, a few leading layers without experts,
// experts in groups with a bias for choosing, a scale for their sum, and shared experts that are always added.
#include "model/arch/layered.h"
#include "model/blocks/latent_attention.h"

namespace strata::model {
namespace {

constexpr int64_t kMaxRank = 1 << 14;
constexpr double kMaxLogMultiplier = 10;

Error contradiction(const Keys& keys, const char* name, int64_t found, const std::string& expected) {
  return {ErrorCode::kBadInput,
          format("{}: key {} is {}, expected {}", keys.model().path(), keys.full(name), found, expected)};
}

// A key that says in another way what follows from others.
Status check_int(const Keys& keys, const char* name, int64_t expected, const char* why) {
  ASSIGN_OR_RETURN(const int64_t found, keys.uniform_int_or(name, expected, 0, kMaxDim));
  if (found == expected) return {};
  return contradiction(keys, name, found, format("{} ({})", expected, why));
}

// Older files give the sizes of a head as key_length and value_length. Newer ones say there what the cache holds.
Status read_latent(const Keys& keys, HParams& hp) {
  LatentShape& shape = hp.latent;
  ASSIGN_OR_RETURN(shape.q_rank, keys.int_or("attention.q_lora_rank", 0, 0, kMaxRank));
  ASSIGN_OR_RETURN(shape.kv_rank, keys.require_int("attention.kv_lora_rank", 1, kMaxHeadDim));
  ASSIGN_OR_RETURN(const int64_t n_rot, keys.require_int("rope.dimension_count", 2, kMaxHeadDim));
  const bool newer = keys.model().find(keys.full("attention.key_length_mla")) != nullptr;
  const char* key_length = newer ? "attention.key_length_mla" : "attention.key_length";
  const char* value_length = newer ? "attention.value_length_mla" : "attention.value_length";
  ASSIGN_OR_RETURN(const int64_t head_dim, keys.require_int(key_length, 1, kMaxHeadDim));
  ASSIGN_OR_RETURN(shape.value_dim, keys.require_int(value_length, 1, kMaxHeadDim));
  if (head_dim <= n_rot) {
    return contradiction(keys, key_length, head_dim, format("more than the {} values that are rotated", n_rot));
  }
  shape.nope_dim = head_dim - n_rot;
  const int64_t row = shape.kv_rank + n_rot;
  if (row > kMaxHeadDim) {
    return contradiction(keys, "attention.kv_lora_rank", shape.kv_rank,
                         format("at most {} with {} rotated values", kMaxHeadDim - n_rot, n_rot));
  }
  if (newer) {
    RETURN_IF_ERROR(check_int(keys, "attention.key_length", row, "kv_lora_rank and rope.dimension_count"));
    RETURN_IF_ERROR(check_int(keys, "attention.value_length", shape.kv_rank, "kv_lora_rank"));
    RETURN_IF_ERROR(check_int(keys, "attention.head_count_kv", 1, "the latent serves all heads"));
  }
  hp.n_kv_heads = 1;
  hp.key_dim = static_cast<int>(row);
  hp.value_dim = static_cast<int>(shape.kv_rank);
  ASSIGN_OR_RETURN(shape.log_multiplier, keys.float_or("rope.scaling.yarn_log_multiplier", 0.0));
  if (shape.log_multiplier >= 0 && shape.log_multiplier <= kMaxLogMultiplier) return {};
  return Error{ErrorCode::kBadInput, format("{}: key {} is {}, expected 0 to {}", keys.model().path(),
                                            keys.full("rope.scaling.yarn_log_multiplier"), shape.log_multiplier,
                                            kMaxLogMultiplier)};
}

// Whether experts are chosen with a bias: in all layers that have some, or in none.
Result<bool> has_selection_bias(const Keys& keys, const HParams& hp) {
  std::string missing;
  bool found = false;
  for (int i = 0; i < hp.n_layers; i++) {
    if (hp.dense[static_cast<size_t>(i)]) continue;
    const std::string name = format("blk.{}.exp_probs_b.bias", i);
    if (keys.model().find_tensor(name) != nullptr) {
      found = true;
    } else if (missing.empty()) {
      missing = name;
    }
  }
  if (!found || missing.empty()) return found;
  return Error{ErrorCode::kBadInput, format("{}: tensor {} is missing", keys.model().path(), missing)};
}

// Experts in equal groups, of which the best are searched; they have to hold the experts that a token uses.
Status read_groups(const Keys& keys, kernels::RouteParams& route) {
  ASSIGN_OR_RETURN(const int64_t groups, keys.int_or("expert_group_count", 1, 0, route.n_experts));
  if (groups <= 1) return {};
  ASSIGN_OR_RETURN(const int64_t used, keys.require_int("expert_group_used_count", 1, groups));
  if (route.n_experts % groups != 0 || route.n_experts / groups * used < route.n_used) {
    return Error{ErrorCode::kBadInput,
                 format("{}: keys {}: {} of {} equal groups of {} experts have to hold the {} that a token uses",
                        keys.model().path(), keys.full("expert_group_*"), used, groups, route.n_experts, route.n_used)};
  }
  route.n_groups = static_cast<int>(groups);
  route.n_groups_used = static_cast<int>(used);
  return {};
}

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "deepseek2"));
  hp.rope_interleaved = true;
  RETURN_IF_ERROR(read_latent(keys, hp));
  RETURN_IF_ERROR(read_leading_dense(keys, hp));
  // Files of models with such a bias may lack the key: those have a sigmoid.
  ASSIGN_OR_RETURN(const bool biased, has_selection_bias(keys, hp));
  ASSIGN_OR_RETURN(hp.route.gating, read_gating(keys, biased ? kernels::Gating::kSigmoid : kernels::Gating::kSoftmax));
  ASSIGN_OR_RETURN(hp.route.normalize, keys.bool_or("expert_weights_norm", false));
  RETURN_IF_ERROR(read_groups(keys, hp.route));
  ASSIGN_OR_RETURN(const int64_t shared, keys.int_or("expert_shared_count", 0, 0, kMaxFfn / hp.expert_ffn));
  hp.shared_ffn = shared * hp.expert_ffn;
  ASSIGN_OR_RETURN(const double temperature, keys.float_or("attention.temperature_scale", 0.0));
  if (temperature != 0) {
    return Error{ErrorCode::kUnsupported, format("{}: key {} is {}; a temperature of attention is not supported",
                                                 keys.model().path(), keys.full("attention.temperature_scale"),
                                                 temperature)};
  }
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_layered(
      spec, {}, [&](const std::string& prefix, int) { return LatentAttentionBlock::load(spec, prefix); });
}

}  // namespace

const ArchInfo kDeepseek2{"deepseek2", read, build};

}  // namespace strata::model
