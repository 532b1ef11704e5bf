#include "model/hparams_cases.h"

#include <limits>

namespace strata::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kMaxU32 = std::numeric_limits<uint32_t>::max();

MetadataCase u32(const std::string& name, const std::string& key, uint32_t value) {
  return {name, key, [key, value](ModelCopy& m) { m.set_u32(key, value); }};
}
MetadataCase f32(const std::string& name, const std::string& key, float value) {
  return {name, key, [key, value](ModelCopy& m) { m.set_f32(key, value); }};
}
MetadataCase f64(const std::string& name, const std::string& key, double value) {
  return {name, key, [key, value](ModelCopy& m) { m.set_f64(key, value); }};
}
MetadataCase missing(const std::string& key) {
  return {key + " missing", key, [key](ModelCopy& m) { m.remove(key); }};
}
MetadataCase changed(const std::string& name, const std::string& key, std::function<void(ModelCopy&)> change) {
  return {name, key, std::move(change)};
}

using Cases = std::vector<MetadataCase>;
void append(Cases& to, Cases more) { to.insert(to.end(), more.begin(), more.end()); }

Cases layer_cases() {
  return {
      missing("block_count"),
      u32("no layers", "block_count", 0),
      u32("one layer more than the limit", "block_count", 513),
      u32("2^32-1 layers", "block_count", kMaxU32),
      changed("-1 layers", "block_count", [](ModelCopy& m) { m.set_i32("block_count", -1); }),
      changed("layers as text", "block_count", [](ModelCopy& m) { m.set_string("block_count", "3"); }),
      f32("layers as a float", "block_count", 3),
      changed("layers as an array", "block_count", [](ModelCopy& m) { m.set_i32s("block_count", {3}); }),
      changed("all layers are drafting layers", "nextn_predict_layers",
              [](ModelCopy& m) { m.set_u32("nextn_predict_layers", m.get_u32("block_count")); }),
      u32("more drafting layers than layers", "nextn_predict_layers", kMaxU32),
  };
}

Cases size_cases() {
  return {
      missing("embedding_length"),
      u32("dim 0", "embedding_length", 0),
      u32("dim beyond the limit", "embedding_length", (1 << 17) + 1),
      u32("dim 2^32-1", "embedding_length", kMaxU32),
      missing("context_length"),
      u32("context 0", "context_length", 0),
      u32("context beyond the limit", "context_length", (1 << 24) + 1),
      changed("context -1", "context_length", [](ModelCopy& m) { m.set_i32("context_length", -1); }),
      missing("attention.layer_norm_rms_epsilon"),
      f32("eps 0", "attention.layer_norm_rms_epsilon", 0),
      f32("eps NaN", "attention.layer_norm_rms_epsilon", kNaN),
      f32("eps negative", "attention.layer_norm_rms_epsilon", -1e-6f),
      f32("eps infinite", "attention.layer_norm_rms_epsilon", kInf),
      f64("eps that is 0 as a float", "attention.layer_norm_rms_epsilon", 1e-300),
      f64("eps that is infinite as a float", "attention.layer_norm_rms_epsilon", 1e300),
      changed("eps as text", "attention.layer_norm_rms_epsilon",
              [](ModelCopy& m) { m.set_string("attention.layer_norm_rms_epsilon", "1e-6"); }),
      changed("eps as an array", "attention.layer_norm_rms_epsilon",
              [](ModelCopy& m) { m.set_f32s("attention.layer_norm_rms_epsilon", {1e-6f}); }),
  };
}

Cases head_cases() {
  return {
      missing("attention.head_count"),
      u32("no heads", "attention.head_count", 0),
      u32("heads beyond the limit", "attention.head_count", 1025),
      u32("2^32-1 heads", "attention.head_count", kMaxU32),
      f32("heads as a float", "attention.head_count", 4),
      changed("heads as floats per layer", "attention.head_count",
              [](ModelCopy& m) { m.set_f32s("attention.head_count", {4, 4, 4, 4}); }),
      changed("heads as an empty array", "attention.head_count",
              [](ModelCopy& m) { m.set_i32s("attention.head_count", {}); }),
      changed("heads 0 in every layer", "attention.head_count",
              [](ModelCopy& m) { m.set_i32s("attention.head_count", {0, 0, 0, 0}); }),
      changed("heads that differ between layers", "attention.head_count",
              [](ModelCopy& m) { m.set_i32s("attention.head_count", {4, 4, 2, 4}); }),
      changed("more elements than any model has layers", "attention.head_count",
              [](ModelCopy& m) { m.set_i32s("attention.head_count", std::vector<int32_t>(513, 4)); }),
      u32("no kv heads", "attention.head_count_kv", 0),
      changed("3 kv heads with 8 heads", "attention.head_count_kv", [](ModelCopy& m) {
        m.set_u32("attention.head_count", 8);
        m.set_u32("attention.head_count_kv", 3);
      }),
      u32("more kv heads than heads", "attention.head_count_kv", 8),
      changed("kv heads that differ between layers", "attention.head_count_kv",
              [](ModelCopy& m) { m.set_i32s("attention.head_count_kv", {2, 2, 1, 2}); }),
      u32("key_length 0", "attention.key_length", 0),
      u32("key_length beyond the limit", "attention.key_length", 1025),
      u32("key_length 2^32-1", "attention.key_length", kMaxU32),
      u32("value_length 0", "attention.value_length", 0),
      u32("value_length beyond the limit", "attention.value_length", 1025),
      f32("attention scale NaN", "attention.scale", kNaN),
      f32("attention scale negative", "attention.scale", -0.125f),
      f32("attention scale infinite", "attention.scale", kInf),
      f64("attention scale that is infinite as a float", "attention.scale", 1e300),
  };
}

Cases rope_cases() {
  return {
      u32("no rotated values", "rope.dimension_count", 0),
      u32("an odd number of rotated values", "rope.dimension_count", 7),
      u32("more rotated values than a head has", "rope.dimension_count", 34),
      f32("base 0", "rope.freq_base", 0),
      f32("base 1", "rope.freq_base", 1),
      f32("base negative", "rope.freq_base", -10000),
      f32("base NaN", "rope.freq_base", kNaN),
      f32("base infinite", "rope.freq_base", kInf),
      changed("unknown scaling", "rope scaling 'ntk'", [](ModelCopy& m) { m.set_string("rope.scaling.type", "ntk"); }),
      changed("longrope without its table", "rope_factors_short.weight",
              [](ModelCopy& m) { m.set_string("rope.scaling.type", "longrope"); }),
      changed("scaling with control characters", "rope scaling 'a?[2J?'",
              [](ModelCopy& m) { m.set_string("rope.scaling.type", "a\x1b[2J\n"); }),
      u32("scaling type as a number", "rope.scaling.type", 1),
      f32("factor negative", "rope.scaling.factor", -2),
      f32("factor NaN", "rope.scaling.factor", kNaN),
      f32("attention factor NaN", "rope.scaling.attn_factor", kNaN),
      changed("original context 0", "original_context_length",
              [](ModelCopy& m) { m.set_u32("rope.scaling.original_context_length", 0); }),
  };
}

Cases expert_cases() {
  return {
      missing("expert_count"),
      u32("no experts", "expert_count", 0),
      u32("10^9 experts", "expert_count", 1'000'000'000),
      u32("2^32-1 experts", "expert_count", kMaxU32),
      u32("experts beyond the limit", "expert_count", 1025),
      missing("expert_used_count"),
      u32("no expert used", "expert_used_count", 0),
      u32("more experts used than there are", "expert_used_count", 9),
      u32("2^32-1 experts used", "expert_used_count", kMaxU32),
      changed("no width of the experts", "expert_feed_forward_length",
              [](ModelCopy& m) {
                m.remove("feed_forward_length");
                m.remove("expert_feed_forward_length");
              }),
      u32("experts of width 0", "expert_feed_forward_length", 0),
      u32("experts of width 2^32-1", "expert_feed_forward_length", kMaxU32),
      changed("widths that differ between layers", "expert_feed_forward_length",
              [](ModelCopy& m) { m.set_i32s("expert_feed_forward_length", {32, 64, 32, 32}); }),
      u32("dense width beyond the limit", "feed_forward_length", (1 << 18) + 1),
      f32("weights scale NaN", "expert_weights_scale", kNaN),
      f64("weights scale that is infinite as a float", "expert_weights_scale", 1e300),
  };
}

Cases common_cases() {
  Cases all = layer_cases();
  append(all, size_cases());
  append(all, head_cases());
  append(all, rope_cases());
  append(all, expert_cases());
  return all;
}

Cases gpt_oss_cases() {
  return {
      missing("attention.sliding_window"),
      u32("window 0", "attention.sliding_window", 0),
      u32("window 2^32-1", "attention.sliding_window", kMaxU32),
      u32("pattern 0", "attention.sliding_window_pattern", 0),
      u32("pattern beyond the limit", "attention.sliding_window_pattern", 513),
  };
}

Cases glm4moe_cases() {
  return {
      u32("all layers dense", "leading_dense_block_count", 3),
      u32("2^32-1 dense layers", "leading_dense_block_count", kMaxU32),
      u32("more dense layers than the tensors say", "leading_dense_block_count", 2),
      changed("no width of the dense layers", "feed_forward_length",
              [](ModelCopy& m) { m.remove("feed_forward_length"); }),
      u32("gating 0", "expert_gating_func", 0),
      u32("gating 4", "expert_gating_func", 4),
      changed("gating as text", "expert_gating_func",
              [](ModelCopy& m) { m.set_string("expert_gating_func", "sigmoid"); }),
      u32("groups of experts", "expert_group_count", 2),
      u32("2^32-1 shared experts", "expert_shared_count", kMaxU32),
      u32("normalisation as a number", "expert_weights_norm", 2),
      changed("sections for images", "rope.dimension_sections",
              [](ModelCopy& m) { m.set_i32s("rope.dimension_sections", {2, 3, 3, 0}); }),
      changed("sections as a number", "rope.dimension_sections",
              [](ModelCopy& m) { m.set_u32("rope.dimension_sections", 8); }),
  };
}

Cases olmoe_cases() {
  return {f32("clamped queries", "attention.clamp_kqv", 8), f32("clamp NaN", "attention.clamp_kqv", kNaN)};
}

Cases qwen2moe_cases() {
  return {
      changed("no width of the shared expert", "expert_shared_feed_forward_length",
              [](ModelCopy& m) {
                m.remove("feed_forward_length");
                m.remove("expert_shared_feed_forward_length");
              }),
      u32("shared expert of width 0", "expert_shared_feed_forward_length", 0),
      u32("shared expert of width 2^32-1", "expert_shared_feed_forward_length", kMaxU32),
  };
}

Cases section_cases() {
  return {
      missing("rope.dimension_sections"),
      changed("three sections", "rope.dimension_sections",
              [](ModelCopy& m) { m.set_i32s("rope.dimension_sections", {2, 1, 1}); }),
      changed("a section beyond the rotated pairs", "rope.dimension_sections",
              [](ModelCopy& m) { m.set_i32s("rope.dimension_sections", {2, 1, 5, 0}); }),
      changed("a negative section", "rope.dimension_sections",
              [](ModelCopy& m) { m.set_i32s("rope.dimension_sections", {2, 1, -1, 0}); }),
      changed("a pair that is left to the fourth position", "rope.dimension_sections",
              [](ModelCopy& m) { m.set_i32s("rope.dimension_sections", {1, 1, 1, 1}); }),
  };
}

Cases delta_net_cases() {
  return {
      missing("ssm.conv_kernel"),
      u32("conv kernel 1", "ssm.conv_kernel", 1),
      u32("conv kernel 2^32-1", "ssm.conv_kernel", kMaxU32),
      missing("ssm.state_size"),
      u32("state size 0", "ssm.state_size", 0),
      u32("state size 2^32-1", "ssm.state_size", kMaxU32),
      changed("state size of another model", "state_size", [](ModelCopy& m) { m.set_u32("ssm.state_size", 32); }),
      missing("ssm.group_count"),
      u32("no key heads", "ssm.group_count", 0),
      missing("ssm.time_step_rank"),
      u32("no value heads", "ssm.time_step_rank", 0),
      u32("2^32-1 value heads", "ssm.time_step_rank", kMaxU32),
      missing("ssm.inner_size"),
      changed("inner size that is not heads x state", "inner_size",
              [](ModelCopy& m) { m.set_u32("ssm.inner_size", 63); }),
      changed("key heads that do not divide the value heads", "group_count",
              [](ModelCopy& m) { m.set_u32("ssm.group_count", 3); }),
      changed("more key heads than value heads", "group_count", [](ModelCopy& m) { m.set_u32("ssm.group_count", 8); }),
      changed("no width of the shared expert", "expert_shared_feed_forward_length",
              [](ModelCopy& m) {
                m.remove("feed_forward_length");
                m.remove("expert_shared_feed_forward_length");
              }),
      u32("shared expert of width 0", "expert_shared_feed_forward_length", 0),
      u32("interval 0", "full_attention_interval", 0),
      changed("layer flags that are too few", "attention.recurrent_layers",
              [](ModelCopy& m) { m.set_bools("attention.recurrent_layers", {true, true, true}); }),
      changed("layer flags that are not an array", "attention.recurrent_layers",
              [](ModelCopy& m) { m.set_u32("attention.recurrent_layers", 1); }),
      changed("layer flags that are numbers", "attention.recurrent_layers",
              [](ModelCopy& m) { m.set_i32s("attention.recurrent_layers", {1, 1, 2, 0}); }),
      changed("layer flags that are floats", "attention.recurrent_layers",
              [](ModelCopy& m) { m.set_f32s("attention.recurrent_layers", {1, 1, 1, 0}); }),
  };
}

Cases stream_cases() {
  return {
      missing("hyper_connection.count"),
      u32("no streams", "hyper_connection.count", 0),
      u32("one stream", "hyper_connection.count", 1),
      u32("2^32-1 streams", "hyper_connection.count", kMaxU32),
      missing("hyper_connection.low_rank"),
      u32("rank 0", "hyper_connection.low_rank", 0),
      u32("a rank above the width", "hyper_connection.low_rank", 4 * 64 + 1),
      u32("rank 2^32-1", "hyper_connection.low_rank", kMaxU32),
  };
}

Cases indexer_cases() {
  const std::string key = "attention.compress_ratios";
  const auto ratios = [&](const std::string& name, const std::vector<int32_t>& values) {
    return changed(name, key, [key, values](ModelCopy& m) { m.set_i32s(key, values); });
  };
  return {
      missing(key),
      u32("ratios that are no array", key, 4),
      ratios("ratios that are too few", {0, 0, 0, 4, 0, 0, 0}),
      ratios("a ratio that does not divide a block of the cache", {0, 0, 0, 3, 0, 0, 0, 4}),
      ratios("a ratio above a block of the cache", {0, 0, 0, 64, 0, 0, 0, 4}),
      ratios("a negative ratio", {0, 0, 0, -4, 0, 0, 0, 4}),
      ratios("a ratio for a layer without attention", {4, 0, 0, 4, 0, 0, 0, 4}),
      missing("attention.indexer.head_count"),
      u32("no heads of the indexer", "attention.indexer.head_count", 0),
      u32("2^32-1 heads of the indexer", "attention.indexer.head_count", kMaxU32),
      missing("attention.indexer.key_length"),
      u32("an indexer's key below the rotated values", "attention.indexer.key_length", 4),
      u32("an indexer's key beyond the limit", "attention.indexer.key_length", 1025),
      missing("attention.indexer.top_k"),
      u32("a budget of 0", "attention.indexer.top_k", 0),
      u32("a budget below a block", "attention.indexer.top_k", 3),
      u32("a budget that blocks do not divide", "attention.indexer.top_k", 18),
      u32("a budget beyond the limit", "attention.indexer.top_k", (1 << 17) + 4),
      u32("a budget of 2^32-1", "attention.indexer.top_k", kMaxU32),
      u32("two draft blocks", "nextn_predict_layers", 2),
  };
}

}  // namespace

std::vector<MetadataCase> metadata_cases(const std::string& arch) {
  Cases all = common_cases();
  if (arch == "gpt-oss") append(all, gpt_oss_cases());
  if (arch == "glm4moe") append(all, glm4moe_cases());
  if (arch == "olmoe") append(all, olmoe_cases());
  if (arch == "qwen2moe") append(all, qwen2moe_cases());
  if (arch == "qwen35moe" || arch == "qwen4exp") append(all, section_cases());
  if (arch == "qwen3next" || arch == "qwen35moe" || arch == "qwen4exp") append(all, delta_net_cases());
  if (arch == "qwen4exp") {
    append(all, stream_cases());
    append(all, indexer_cases());
  }
  return all;
}

}  // namespace strata::test
