#include "model/hparams.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/format.h"

namespace strata::model {

Result<int64_t> Keys::require_int(std::string_view name, int64_t min, int64_t max) const {
  return model_.require_int(full(name), min, max);
}
Result<int64_t> Keys::int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  return model_.int_or(full(name), fallback, min, max);
}
Result<double> Keys::float_or(std::string_view name, double fallback) const {
  return model_.float_or(full(name), fallback);
}
Result<float> Keys::require_positive(std::string_view name) const {
  ASSIGN_OR_RETURN(const double value, model_.require_float(full(name)));
  if (!(value >= double{FLT_MIN}) || value > double{FLT_MAX}) {
    return Error{ErrorCode::kBadInput, format("{}: key {} is {}, expected a positive number that a float32 can hold",
                                              model_.path(), full(name), value)};
  }
  return static_cast<float>(value);
}
Result<bool> Keys::bool_or(std::string_view name, bool fallback) const { return model_.bool_or(full(name), fallback); }
Result<std::string> Keys::string_or(std::string_view name, std::string_view fallback) const {
  return model_.string_or(full(name), fallback);
}

Error Keys::about(std::string_view name, const Error& error) const {
  return {error.code, format("{}: key {} {}", model_.path(), full(name), error.message)};
}

Result<int64_t> Keys::uniform_int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  const gguf::Value* value = model_.find(full(name));
  if (value == nullptr || !value->is_array()) return int_or(name, fallback, min, max);
  if (value->count() == 0 || value->count() > static_cast<uint64_t>(kMaxLayers)) {
    return Error{ErrorCode::kBadInput, format("{}: key {} has {} elements, expected one per layer", model_.path(),
                                              full(name), value->count())};
  }
  const Result<int64_t> first = value->as_int(0);
  for (uint64_t i = 0; i < value->count(); i++) {
    const Result<int64_t> element = value->as_int(i);
    if (!element.ok()) return about(name, element.error());
    if (*element != *first) {
      return Error{
          ErrorCode::kUnsupported,
          format("{}: key {} differs between layers, which this architecture does not use", model_.path(), full(name))};
    }
  }
  if (*first < min || *first > max) {
    return Error{ErrorCode::kBadInput,
                 format("{}: key {} is {}, expected {} to {}", model_.path(), full(name), *first, min, max)};
  }
  return *first;
}

Result<std::vector<bool>> Keys::layer_flags(std::string_view name, int n_layers) const {
  const gguf::Value* value = model_.find(full(name));
  if (value == nullptr) return std::vector<bool>{};
  if (!value->is_array() || value->count() < static_cast<uint64_t>(n_layers)) {
    return Error{ErrorCode::kBadInput,
                 format("{}: key {} needs one element for each of {} layers", model_.path(), full(name), n_layers)};
  }
  std::vector<bool> flags;
  for (int i = 0; i < n_layers; i++) {
    const Result<bool> flag = value->as_bool(static_cast<uint64_t>(i));
    if (!flag.ok()) return about(name, flag.error());
    flags.push_back(*flag);
  }
  return flags;
}

float LatentShape::softmax_scale(const kernels::RopeScaling& rope) const {
  const bool scaled = rope.type == kernels::RopeScalingType::kYarn && rope.has_log_multiplier && rope.factor > 1;
  const double root = 1 + (scaled ? log_multiplier * std::log(rope.factor) : 0);
  return static_cast<float>(root * root / std::sqrt(static_cast<double>(head_dim(rope))));
}

namespace {

Status read_heads(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(const int64_t heads, keys.uniform_int_or("attention.head_count", 0, 1, kMaxHeads));
  if (heads == 0) return keys.require_int("attention.head_count", 1, kMaxHeads).error();
  ASSIGN_OR_RETURN(const int64_t kv_heads, keys.uniform_int_or("attention.head_count_kv", heads, 1, kMaxHeads));
  if (heads % kv_heads != 0) {
    return Error{ErrorCode::kBadInput,
                 format("{}: key {} is {}, which does not divide the {} heads", keys.model().path(),
                        keys.full("attention.head_count_kv"), kv_heads, heads)};
  }
  hp.n_heads = static_cast<int>(heads);
  hp.n_kv_heads = static_cast<int>(kv_heads);
  const int64_t usual = std::max<int64_t>(1, hp.dim / heads);
  ASSIGN_OR_RETURN(const int64_t key_dim, keys.int_or("attention.key_length", usual, 2, kMaxHeadDim));
  ASSIGN_OR_RETURN(const int64_t value_dim, keys.int_or("attention.value_length", usual, 1, kMaxHeadDim));
  if (key_dim > kMaxHeadDim || value_dim > kMaxHeadDim) {
    return Error{ErrorCode::kBadInput, format("{}: heads of {} values, at most {} are supported", keys.model().path(),
                                              std::max(key_dim, value_dim), kMaxHeadDim)};
  }
  hp.key_dim = static_cast<int>(key_dim);
  hp.value_dim = static_cast<int>(value_dim);
  return {};
}

// attention.scale; absent or 0: one over the root of the width of a key.
Status read_attention_scale(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(const double scale, keys.float_or("attention.scale", 0.0));
  if (scale == 0) {
    hp.attn_scale = 1.0f / std::sqrt(static_cast<float>(hp.key_dim));
    return {};
  }
  ASSIGN_OR_RETURN(hp.attn_scale, keys.require_positive("attention.scale"));
  return {};
}

Status read_experts(const Keys& keys, const CommonKeys& meaning, HParams& hp) {
  ASSIGN_OR_RETURN(const int64_t n_experts, keys.require_int("expert_count", 1, kMaxExperts));
  ASSIGN_OR_RETURN(const int64_t n_used, keys.require_int("expert_used_count", 1, n_experts));
  hp.route.n_experts = static_cast<int>(n_experts);
  hp.route.n_used = static_cast<int>(n_used);
  ASSIGN_OR_RETURN(const double scale, keys.float_or("expert_weights_scale", 0.0));
  if (std::abs(scale) > double{FLT_MAX}) {
    return Error{ErrorCode::kBadInput, format("{}: key {} is {}, more than a float32 can hold", keys.model().path(),
                                              keys.full("expert_weights_scale"), scale)};
  }
  hp.route.scale = static_cast<float>(scale);
  ASSIGN_OR_RETURN(const int64_t ffn, keys.uniform_int_or("feed_forward_length", 0, 0, kMaxFfn));
  const int64_t usual = meaning.experts_as_wide_as_dense ? ffn : ffn / n_used;
  ASSIGN_OR_RETURN(hp.expert_ffn, keys.uniform_int_or("expert_feed_forward_length", usual, 1, kMaxFfn));
  if (hp.expert_ffn < 1) return keys.require_int("expert_feed_forward_length", 1, kMaxFfn).error();
  return {};
}

Status read_dense_width(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(hp.dense_ffn, keys.uniform_int_or("feed_forward_length", 0, 1, kMaxFfn));
  return hp.dense_ffn > 0 ? Status() : keys.require_int("feed_forward_length", 1, kMaxFfn).error();
}

// Experts in every layer, or an MLP in every layer.
Status read_ffn(const Keys& keys, const CommonKeys& meaning, HParams& hp) {
  const auto n_layers = static_cast<size_t>(hp.n_layers);
  int64_t n_experts = 1;
  if (meaning.experts != CommonKeys::Experts::kRequired) {
    const int64_t most = meaning.experts == CommonKeys::Experts::kNone ? 0 : kMaxExperts;
    ASSIGN_OR_RETURN(n_experts, keys.int_or("expert_count", 0, 0, most));
  }
  hp.dense.assign(n_layers, n_experts == 0);
  return n_experts == 0 ? read_dense_width(keys, hp) : read_experts(keys, meaning, hp);
}

}  // namespace

Result<kernels::Gating> read_gating(const Keys& keys, kernels::Gating usual) {
  ASSIGN_OR_RETURN(const int64_t gating, keys.int_or("expert_gating_func", static_cast<int64_t>(usual), 1, 3));
  return static_cast<kernels::Gating>(gating);
}

Status read_leading_dense(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(const int64_t n_dense, keys.int_or("leading_dense_block_count", 0, 0, hp.n_layers - 1));
  if (n_dense == 0) return {};
  std::fill_n(hp.dense.begin(), n_dense, true);
  return read_dense_width(keys, hp);
}

Result<HParams> read_common(const Keys& keys, const std::string& arch, const CommonKeys& meaning) {
  HParams hp;
  hp.arch = arch;
  ASSIGN_OR_RETURN(const int64_t blocks, keys.require_int("block_count", 1, kMaxLayers));
  ASSIGN_OR_RETURN(const int64_t drafting, keys.int_or("nextn_predict_layers", 0, 0, blocks - 1));
  hp.n_layers = static_cast<int>(blocks - drafting);
  ASSIGN_OR_RETURN(hp.dim, keys.require_int("embedding_length", 1, kMaxDim));
  ASSIGN_OR_RETURN(hp.context_length, keys.require_int("context_length", 1, kMaxContext));
  ASSIGN_OR_RETURN(hp.eps, keys.require_positive("attention.layer_norm_rms_epsilon"));
  const gguf::TensorInfo* embedding = keys.model().find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    return Error{ErrorCode::kBadInput, format("{}: tensor token_embd.weight is missing", keys.model().path())};
  }
  if (embedding->ne[1] > static_cast<uint64_t>(kMaxVocab)) {
    return Error{ErrorCode::kBadInput,
                 format("{}: {} tokens, at most {} are supported", keys.model().path(), embedding->ne[1], kMaxVocab)};
  }
  hp.n_vocab = static_cast<int64_t>(embedding->ne[1]);
  RETURN_IF_ERROR(read_heads(keys, hp));
  RETURN_IF_ERROR(read_attention_scale(keys, hp));
  RETURN_IF_ERROR(read_rope(keys, hp));
  RETURN_IF_ERROR(read_ffn(keys, meaning, hp));
  hp.windows.assign(static_cast<size_t>(hp.n_layers), 0);
  hp.recurrent.assign(static_cast<size_t>(hp.n_layers), false);
  return hp;
}

}  // namespace strata::model
