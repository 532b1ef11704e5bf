// Files that say the same thing in another form give the same bits: fused and split matrices, old names, split sets,
// tied output, permuted experts, repeated KV heads; and changes that must not matter, or must matter.
#include <algorithm>
#include <cmath>
#include <limits>

#include "model/variant_bits.h"

namespace strata::test {
namespace {

class Variants : public testing::TestWithParam<const char*> {
 protected:
  std::string arch() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(All, Variants, testing::Values("qwen3moe", "gpt-oss", "qwen3next"), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Rows of q, then k, then v in one tensor. In qwen3next only the attention layers have this form; there q carries its
// gate.
void fuse_qkv(ModelCopy& m, const std::string& prefix, const std::string& ending) {
  ModelCopy::Tensor fused = m.take_tensor(prefix + "attn_q." + ending);
  fused.name = prefix + "attn_qkv." + ending;
  for (const char* name : {"attn_k.", "attn_v."}) {
    const ModelCopy::Tensor part = m.take_tensor(prefix + name + ending);
    ASSERT_EQ(part.type, fused.type);
    fused.ne.back() += part.ne.back();
    append(fused.data, part.data);
  }
  m.add_tensor(fused);
}

TEST_P(Variants, FusedQkv) {
  ModelCopy m(arch());
  int fused = 0;
  for (uint32_t l = 0; l < m.get_u32("block_count"); l++) {
    for (const char* ending : {"weight", "bias"}) {
      if (!m.has_tensor(layer_prefix(l) + "attn_q." + ending)) continue;
      fuse_qkv(m, layer_prefix(l), ending);
      fused++;
    }
  }
  EXPECT_EQ(fused, arch() == "qwen3moe" ? 3 : arch() == "gpt-oss" ? 8 : 1);
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits(arch())));
}

// Within one expert first the rows of gate, then those of up.
TEST_P(Variants, FusedGateAndUpExperts) {
  ModelCopy m(arch());
  for (uint32_t l = 0; l < m.get_u32("block_count"); l++) {
    const ModelCopy::Tensor gate = m.take_tensor(layer_prefix(l) + "ffn_gate_exps.weight");
    const ModelCopy::Tensor up = m.take_tensor(layer_prefix(l) + "ffn_up_exps.weight");
    const uint64_t ffn = gate.ne[1];
    ModelCopy::Tensor fused{layer_prefix(l) + "ffn_gate_up_exps.weight", gate.type,
                            {gate.ne[0], 2 * ffn, gate.ne[2]}, {}};
    for (uint64_t e = 0; e < gate.ne[2]; e++) {
      append(fused.data, gate.row_range(e * ffn, ffn));
      append(fused.data, up.row_range(e * ffn, ffn));
    }
    m.add_tensor(fused);
  }
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits(arch())));
}

// The old form knows no biases, so it does not exist for gpt-oss.
class OldForms : public Variants {};
INSTANTIATE_TEST_SUITE_P(All, OldForms, testing::Values("qwen3moe", "qwen3next"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(OldForms, OneTensorPerExpert) {
  ModelCopy m(arch());
  for (uint32_t l = 0; l < m.get_u32("block_count"); l++) {
    for (const std::string name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      const ModelCopy::Tensor merged = m.take_tensor(layer_prefix(l) + name + "_exps.weight");
      for (uint64_t e = merged.ne[2]; e-- > 0;) {  // in another order than their numbers
        m.add_tensor({layer_prefix(l) + name + "." + std::to_string(e) + ".weight", merged.type,
                      {merged.ne[0], merged.ne[1]}, merged.row_range(e * merged.ne[1], merged.ne[1])});
      }
    }
  }
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits(arch())));
}

TEST_P(Variants, ThreeFilesOfASplitSet) {
  const ModelCopy m(arch());
  const TempDir dir;
  EXPECT_TRUE(same_bits(bits_of(arch(), m.write_split(dir.path(), 3)), golden_bits(arch())));
}

// A file without an output matrix means the embedding.
TEST_P(OldForms, TiedOutput) {
  ModelCopy tied(arch());
  tied.remove_tensor("output.weight");
  ModelCopy spelled_out(arch());
  spelled_out.tensor("output.weight").data = spelled_out.tensor("token_embd.weight").data;
  const std::vector<float> expected = bits_of(spelled_out);
  EXPECT_TRUE(same_bits(bits_of(tied), expected));
  EXPECT_FALSE(same_bits(expected, golden_bits(arch())));
}

// Slices of the last dimension in another order: slice i of the result is slice order[i].
void permute_slices(ModelCopy::Tensor& t, const std::vector<size_t>& order) {
  ASSERT_EQ(t.ne.back(), order.size()) << t.name;
  const size_t slice = t.data.size() / order.size();
  const std::vector<std::byte> old = t.data;
  for (size_t i = 0; i < order.size(); i++) {
    std::memcpy(t.data.data() + i * slice, old.data() + order[i] * slice, slice);
  }
}

// Only the sum of the softmax over all experts runs in another order; the chosen ones are still summed by rank.
TEST_P(Variants, ExpertsPermutedTogetherWithTheirRouterRows) {
  const std::vector<size_t> order = {3, 0, 7, 5, 1, 6, 2, 4};
  ModelCopy m(arch());
  for (ModelCopy::Tensor& t : m.tensors()) {
    if (t.name.find("_exps.") != std::string::npos || t.name.find("ffn_gate_inp.") != std::string::npos) {
      permute_slices(t, order);
    }
  }
  EXPECT_LE(largest_difference(bits_of(m), golden_bits(arch())), 1e-6);
  permute_slices(m.tensor("blk.0.ffn_gate_inp.weight"), order);  // a router that no longer fits its experts
  EXPECT_GT(largest_difference(bits_of(m), golden_bits(arch())), 1e-3);
}

// Every KV head as often as query heads share it, with as many KV heads as heads.
void repeat_heads(ModelCopy::Tensor& t, uint64_t n_kv_heads, uint64_t times) {
  const size_t head = t.data.size() / n_kv_heads;
  std::vector<std::byte> repeated;
  for (uint64_t h = 0; h < n_kv_heads; h++) {
    const auto begin = t.data.begin() + static_cast<int64_t>(h * head);
    for (uint64_t i = 0; i < times; i++) repeated.insert(repeated.end(), begin, begin + static_cast<int64_t>(head));
  }
  t.data = std::move(repeated);
  t.ne.back() *= times;
}

TEST_P(Variants, RepeatedKvHeads) {
  ModelCopy m(arch());
  const uint32_t heads = m.get_u32("attention.head_count");
  const uint32_t kv_heads = m.get_u32("attention.head_count_kv");
  ASSERT_LT(kv_heads, heads);
  for (ModelCopy::Tensor& t : m.tensors()) {
    if (t.name.find("attn_k.") != std::string::npos || t.name.find("attn_v.") != std::string::npos) {
      repeat_heads(t, kv_heads, heads / kv_heads);
    }
  }
  m.set_u32("attention.head_count_kv", heads);
  EXPECT_LE(largest_difference(bits_of(m), golden_bits(arch())), 1e-5);
}

// Rows of ssm_in per key head: its q, its k, v of its value heads, z of its value heads.
void to_legacy_inputs(ModelCopy& m, uint32_t layer) {
  const uint64_t key_heads = m.get_u32("ssm.group_count");
  const uint64_t dim = m.get_u32("ssm.state_size");
  const uint64_t v_rows = m.get_u32("ssm.time_step_rank") / key_heads * dim;
  const ModelCopy::Tensor qkv = m.take_tensor(layer_prefix(layer) + "attn_qkv.weight");
  const ModelCopy::Tensor z = m.take_tensor(layer_prefix(layer) + "attn_gate.weight");
  ModelCopy::Tensor legacy{layer_prefix(layer) + "ssm_in.weight", qkv.type, {qkv.ne[0], qkv.ne[1] + z.ne[1]}, {}};
  for (uint64_t g = 0; g < key_heads; g++) {
    append(legacy.data, qkv.row_range(g * dim, dim));
    append(legacy.data, qkv.row_range((key_heads + g) * dim, dim));
    append(legacy.data, qkv.row_range(2 * key_heads * dim + g * v_rows, v_rows));
    append(legacy.data, z.row_range(g * v_rows, v_rows));
  }
  m.add_tensor(legacy);
}

TEST(Qwen3Next, LegacySsmIn) {
  ModelCopy m("qwen3next");
  for (const uint32_t l : {0u, 1u, 2u}) to_legacy_inputs(m, l);
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits("qwen3next")));
}

TEST(Qwen3Next, LayerFlagsInsteadOfTheInterval) {
  ModelCopy m("qwen3next");
  m.remove("full_attention_interval");
  m.set_bools("attention.recurrent_layers", {true, true, true, false});
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits("qwen3next")));
  m.set_u32("full_attention_interval", 2);  // the flags are the stronger statement
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits("qwen3next")));
}

ModelCopy without_delta_output() {
  ModelCopy m("qwen3next");
  for (const uint32_t l : {0u, 1u, 2u}) zero(m.tensor(layer_prefix(l) + "ssm_out.weight"));
  return m;
}

// With ssm_out zero a delta layer adds nothing: it may as well be a layer of attention that adds nothing.
TEST(Qwen3Next, ZeroedSsmOutMakesDeltaLayersNoOps) {
  const std::vector<float> expected = bits_of(without_delta_output());
  EXPECT_GT(largest_difference(expected, golden_bits("qwen3next")), 1e-3);
  ModelCopy m = without_delta_output();
  for (const uint32_t l : {0u, 1u, 2u}) {
    for (const char* name : {"attn_qkv.weight", "attn_gate.weight"}) m.remove_tensor(layer_prefix(l) + name);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm", "attn_k_norm"}) {
      ModelCopy::Tensor t = m.tensor(layer_prefix(3) + name + ".weight");
      t.name = layer_prefix(l) + name + ".weight";
      if (std::string_view(name) == "attn_output") zero(t);
      m.add_tensor(t);
    }
  }
  m.set_bools("attention.recurrent_layers", {false, false, false, false});
  EXPECT_TRUE(same_bits(bits_of(m), expected));
}

ModelCopy gpt_oss_with_sinks(float value) {
  ModelCopy m("gpt-oss");
  for (uint32_t l = 0; l < m.get_u32("block_count"); l++) {
    ModelCopy::Tensor& sinks = m.tensor(layer_prefix(l) + "attn_sinks.weight");
    set_floats(sinks, std::vector<float>(floats_of(sinks).size(), value));
  }
  return m;
}

TEST(GptOss, SinksOfMinusInfinityWeighNothing) {
  const std::vector<float> infinite = bits_of(gpt_oss_with_sinks(-std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(same_bits(bits_of(gpt_oss_with_sinks(-1e30f)), infinite));
  EXPECT_GT(largest_difference(infinite, golden_bits("gpt-oss")), 1e-3);
}

// Log-probabilities after the first token of each sequence.
std::vector<float> first_rows(const std::vector<float>& bits) {
  const GoldenModel golden = load_arch_golden("gpt-oss");
  std::vector<float> rows;
  size_t at = 0;
  for (const GoldenSequence& s : golden.sequences) {
    EXPECT_TRUE(s.counts[0]);
    for (int64_t i = 0; i < golden.n_vocab; i++) rows.push_back(bits.at(at + static_cast<size_t>(i)));
    for (const bool counts : s.counts) at += counts ? static_cast<size_t>(golden.n_vocab) : 0;
  }
  return rows;
}

// The first token sees itself alone. Without a sink its weight is 1 whatever the query; with one the query matters.
TEST(GptOss, WithoutSinksTheFirstTokenNeedsNoQuery) {
  const auto without_queries = [](ModelCopy m) {
    for (uint32_t l = 0; l < m.get_u32("block_count"); l++) zero(m.tensor(layer_prefix(l) + "attn_q.weight"));
    return bits_of(m);
  };
  const ModelCopy no_sinks = gpt_oss_with_sinks(-1e30f);
  EXPECT_TRUE(same_bits(first_rows(without_queries(no_sinks)), first_rows(bits_of(no_sinks))));
  const std::vector<float> with_sinks = first_rows(without_queries(ModelCopy("gpt-oss")));
  EXPECT_GT(largest_difference(with_sinks, first_rows(golden_bits("gpt-oss"))), 1e-4);
}

TEST(GptOss, AWindowOfTheContextIsFullAttention) {
  ModelCopy full("gpt-oss");
  full.set_u32("attention.sliding_window_pattern", 1);
  const std::vector<float> expected = bits_of(full);
  EXPECT_GT(largest_difference(expected, golden_bits("gpt-oss")), 1e-3);
  for (const uint32_t window : {128u, 1u << 24}) {
    ModelCopy wide("gpt-oss");
    wide.set_u32("attention.sliding_window", window);
    EXPECT_TRUE(same_bits(bits_of(wide), expected)) << window;
  }
}

}  // namespace
}  // namespace strata::test
