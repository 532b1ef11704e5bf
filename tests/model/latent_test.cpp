// Latent attention: files of older and other forms of deepseek2 say the same thing as the golden one, and what its
// cache takes.
#include <cmath>

#include <gmock/gmock.h>

#include "model/refusal.h"
#include "model/variant_bits.h"
#include "quant/encode.h"

namespace strata::test {
namespace {

constexpr const char* kArch = "deepseek2";
// Of the golden model.
constexpr uint64_t kDim = 64, kHeads = 4, kNope = 32, kRot = 16, kLatent = 32, kValue = 32, kQueryRank = 48;
constexpr uint32_t kLayers = 3;
constexpr size_t kElement = 2;  // bytes, BF16

std::vector<std::byte> one_bf16(float value) {
  const uint16_t bits = quant::f32_to_bf16(value);
  std::vector<std::byte> bytes(kElement);
  std::memcpy(bytes.data(), &bits, kElement);
  return bytes;
}

ModelCopy::Tensor bf16_tensor(const std::string& name, std::vector<uint64_t> ne) {
  return {name, static_cast<uint32_t>(quant::Type::BF16), std::move(ne), {}};
}

// Per head the rows of k as they are before they are transposed, then those of v.
void to_kv_b(ModelCopy& m, uint32_t layer) {
  const ModelCopy::Tensor k = m.take_tensor(layer_prefix(layer) + "attn_k_b.weight");
  const ModelCopy::Tensor v = m.take_tensor(layer_prefix(layer) + "attn_v_b.weight");
  ModelCopy::Tensor both =
      bf16_tensor(layer_prefix(layer) + "attn_kv_b.weight", {kLatent, kHeads * (kNope + kValue)});
  for (uint64_t h = 0; h < kHeads; h++) {
    for (uint64_t n = 0; n < kNope; n++) {
      for (uint64_t r = 0; r < kLatent; r++) {
        const auto at = k.data.begin() + static_cast<ptrdiff_t>(((h * kLatent + r) * kNope + n) * kElement);
        both.data.insert(both.data.end(), at, at + kElement);
      }
    }
    append(both.data, v.row_range(h * kValue, kValue));
  }
  m.add_tensor(both);
}

void to_older_keys(ModelCopy& m) {
  m.remove("attention.key_length_mla");
  m.remove("attention.value_length_mla");
  m.set_u32("attention.key_length", kNope + kRot);
  m.set_u32("attention.value_length", kValue);
  m.set_u32("attention.head_count_kv", kHeads);
}

TEST(Deepseek2, OlderFilesHaveBothMatricesOfAHeadInOneTensor) {
  ModelCopy m(kArch);
  for (uint32_t l = 0; l < kLayers; l++) to_kv_b(m, l);
  const std::vector<float> newer_keys = bits_of(m);
  EXPECT_LE(largest_difference(newer_keys, golden_bits(kArch)), 1e-5);
  to_older_keys(m);
  EXPECT_TRUE(same_bits(bits_of(m), newer_keys));
}

// So that the test above could fail: keys and values of a head exchanged.
TEST(Deepseek2, TheOrderOfAHeadsMatricesMatters) {
  ModelCopy m(kArch);
  for (uint32_t l = 0; l < kLayers; l++) to_kv_b(m, l);
  ModelCopy::Tensor& both = m.tensor("blk.1.attn_kv_b.weight");
  const size_t half = kNope * kLatent * kElement;
  std::swap_ranges(both.data.begin(), both.data.begin() + static_cast<ptrdiff_t>(half),
                   both.data.begin() + static_cast<ptrdiff_t>(half));
  EXPECT_GT(largest_difference(bits_of(m), golden_bits(kArch)), 1e-3);
}

TEST(Deepseek2, OlderKeysWithTheNewerTensors) {
  ModelCopy m(kArch);
  to_older_keys(m);
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits(kArch)));
}

// Rows of the queries' projection at once, for a model without a latent of the queries.
ModelCopy::Tensor query_rows(const ModelCopy& m, const std::string& name, uint32_t layer) {
  ModelCopy copy = m;
  const ModelCopy::Tensor from = copy.tensor(layer_prefix(layer) + "attn_q_a.weight");  // [dim, q_rank]
  ModelCopy::Tensor rows = bf16_tensor(layer_prefix(layer) + name, {kDim, kHeads * (kNope + kRot)});
  for (uint64_t i = 0; i < rows.ne[1]; i++) append(rows.data, from.row_range(i * 7 % kQueryRank, 1));
  return rows;
}

// With an identity as first matrix, and a norm of rows that are normed already, both forms compute the same.
TEST(Deepseek2, QueriesWithoutALatentOfTheirOwn) {
  ModelCopy direct(kArch), through(kArch);
  direct.remove("attention.q_lora_rank");
  through.set_u32("attention.q_lora_rank", kDim);
  for (uint32_t l = 0; l < kLayers; l++) {
    const std::string prefix = layer_prefix(l);
    for (ModelCopy* m : {&direct, &through}) {
      set_floats(m->tensor(prefix + "attn_norm.weight"), std::vector<float>(kDim, 1));
    }
    direct.add_tensor(query_rows(direct, "attn_q.weight", l));
    for (const char* name : {"attn_q_a.weight", "attn_q_a_norm.weight", "attn_q_b.weight"}) {
      direct.remove_tensor(prefix + name);
    }
    const ModelCopy::Tensor second = query_rows(through, "attn_q_b.weight", l);
    through.tensor(prefix + "attn_q_b.weight") = second;
    ModelCopy::Tensor& first = through.tensor(prefix + "attn_q_a.weight");
    first = bf16_tensor(first.name, {kDim, kDim});
    for (uint64_t i = 0; i < kDim * kDim; i++) append(first.data, one_bf16(i / kDim == i % kDim ? 1 : 0));
    ModelCopy::Tensor& norm = through.tensor(prefix + "attn_q_a_norm.weight");
    norm.ne = {kDim};
    norm.data.resize(kDim * sizeof(float));
    set_floats(norm, std::vector<float>(kDim, 1));
  }
  const std::vector<float> expected = bits_of(through);
  EXPECT_LE(largest_difference(bits_of(direct), expected), 1e-4);
  EXPECT_GT(largest_difference(expected, golden_bits(kArch)), 1e-2);
}

void scale_queries(ModelCopy& m, double factor) {
  for (uint32_t l = 0; l < kLayers; l++) {
    ModelCopy::Tensor& norm = m.tensor(layer_prefix(l) + "attn_q_a_norm.weight");
    std::vector<float> gains = floats_of(norm);
    for (float& g : gains) g = static_cast<float>(g * factor);
    set_floats(norm, gains);
  }
}

// An original context that is so long that no frequency changes: what is left of YaRN are the scores, here twice what
// they were.
TEST(Deepseek2, YarnMultipliesTheScores) {
  ModelCopy yarn(kArch);
  yarn.set_string("rope.scaling.type", "yarn");
  yarn.set_f32("rope.scaling.factor", 40);
  yarn.set_u32("rope.scaling.original_context_length", 1 << 24);
  yarn.set_f64("rope.scaling.yarn_log_multiplier", (std::sqrt(2.0) - 1) / std::log(40.0));
  ModelCopy scaled(kArch);
  scale_queries(scaled, 2);
  const std::vector<float> expected = bits_of(scaled);
  EXPECT_TRUE(same_bits(bits_of(yarn), expected));
  EXPECT_GT(largest_difference(expected, golden_bits(kArch)), 1e-3);
}

TEST(Deepseek2, SoftmaxScalesOfTheReleasedModels) {
  const kernels::RopeScaling yarn{
      .type = kernels::RopeScalingType::kYarn, .n_rot = 64, .factor = 40, .has_log_multiplier = true};
  model::LatentShape shape{.kv_rank = 512, .nope_dim = 128, .value_dim = 128};
  EXPECT_NEAR(shape.softmax_scale({.n_rot = 64}), 1 / std::sqrt(192.0), 1e-7);
  shape.log_multiplier = 0.1;
  EXPECT_NEAR(shape.softmax_scale(yarn), 0.1352338, 1e-7);
  shape.log_multiplier = 0.0707;
  EXPECT_NEAR(shape.softmax_scale(yarn), 0.1147214, 1e-7);
  // With YaRN that the user asks for, cos and sin have the magnitude.
  EXPECT_NEAR(shape.softmax_scale({.type = kernels::RopeScalingType::kYarn, .n_rot = 64, .factor = 40}),
              1 / std::sqrt(192.0), 1e-7);
}

TEST(Deepseek2, FilesWithABiasForChoosingNeedNoKeyForTheSigmoid) {
  ModelCopy m(kArch);
  m.remove("expert_gating_func");
  EXPECT_TRUE(same_bits(bits_of(m), golden_bits(kArch)));
  m.set_u32("expert_gating_func", 1);
  EXPECT_GT(largest_difference(bits_of(m), golden_bits(kArch)), 1e-3);
}

TEST(Deepseek2, AllGroupsAreAsGoodAsNone) {
  ModelCopy all(kArch), none(kArch);
  all.set_u32("expert_group_used_count", all.get_u32("expert_group_count"));
  none.remove("expert_group_count");
  none.remove("expert_group_used_count");
  const std::vector<float> expected = bits_of(none);
  EXPECT_TRUE(same_bits(bits_of(all), expected));
  EXPECT_GT(largest_difference(expected, golden_bits(kArch)), 1e-3);
}

// Every `per` rows, and `more` rows of zeros behind them.
void widen_rows(ModelCopy::Tensor& t, uint64_t per, uint64_t more) {
  const uint64_t groups = t.rows() / per;
  const size_t row_bytes = t.row_bytes();
  std::vector<std::byte> data;
  for (uint64_t g = 0; g < groups; g++) {
    append(data, t.row_range(g * per, per));
    data.resize(data.size() + more * row_bytes);
  }
  t.data = std::move(data);
  t.ne[1] += groups * more;
}

// The golden model with 16 more rotated values, all 0: a token's row of 64 divides into blocks. The square of the base
// leaves the frequencies of the first pairs as they were, and larger queries make up for the softmax scale.
ModelCopy with_wider_rows() {
  ModelCopy m(kArch);
  for (uint32_t l = 0; l < kLayers; l++) {
    widen_rows(m.tensor(layer_prefix(l) + "attn_q_b.weight"), kNope + kRot, kRot);
    widen_rows(m.tensor(layer_prefix(l) + "attn_kv_a_mqa.weight"), kLatent + kRot, kRot);
  }
  scale_queries(m, std::sqrt(static_cast<double>(kNope + 2 * kRot) / (kNope + kRot)));
  m.set_u32("rope.dimension_count", 2 * kRot);
  m.set_f32("rope.freq_base", 1e8f);
  m.set_u32("attention.key_length_mla", kNope + 2 * kRot);
  m.set_u32("attention.key_length", kLatent + 2 * kRot);
  return m;
}

// Median differences, for a few rows are far off where another expert is chosen.
TEST(Deepseek2, RowsThatDivideIntoBlocksMayHaveEveryType) {
  const TempDir dir;
  with_wider_rows().write(dir.file("m.gguf"));
  GoldenModel golden = load_arch_golden(kArch);
  golden.path = dir.file("m.gguf");
  const auto bits_with = [&](kernels::KvType type) {
    engine::EngineConfig config = test_config();
    config.kv_type = type;
    std::vector<float> bits;
    EXPECT_GE(worst_difference(golden, config, Cut::kChunksOf7, &bits), 0);
    return bits;
  };
  const std::vector<float> exact = bits_with(kernels::KvType::kF32);
  EXPECT_LE(largest_difference(exact, golden_bits(kArch)), 1e-4);
  const auto median_off = [&](kernels::KvType type) {
    const std::vector<float> found = bits_with(type);
    std::vector<double> off;
    for (size_t i = 0; i < found.size(); i++) off.push_back(std::abs(double{found[i]} - exact.at(i)));
    std::nth_element(off.begin(), off.begin() + static_cast<ptrdiff_t>(off.size() / 2), off.end());
    return off[off.size() / 2];
  };
  // As the rounding of an element: 2^-11, 2^-8 and about 2^-7.
  const double half = median_off(kernels::KvType::kF16);
  EXPECT_GT(half, 0);
  EXPECT_LE(half, 1e-3);
  EXPECT_LE(median_off(kernels::KvType::kBf16), 8e-3);
  EXPECT_LE(median_off(kernels::KvType::kQ8_0), 16e-3);
}

// The golden model with those of its matrices in Q8_0 whose rows divide into blocks.
ModelCopy in_q8_0() {
  ModelCopy m(kArch);
  for (ModelCopy::Tensor& t : m.tensors()) {
    if (t.type != static_cast<uint32_t>(quant::Type::BF16) || t.ne[0] % 32 != 0) continue;
    std::vector<float> values(t.data.size() / kElement);
    const auto* packed = reinterpret_cast<const uint8_t*>(t.data.data());
    quant::info(quant::Type::BF16).decode(packed, values.data(), values.size());
    std::vector<uint8_t> blocks(values.size() / 32 * 34);
    quant::find_encoder(quant::Type::Q8_0)(values.data(), blocks.data(), values.size());
    t.type = static_cast<uint32_t>(quant::Type::Q8_0);
    t.data.assign(reinterpret_cast<const std::byte*>(blocks.data()),
                  reinterpret_cast<const std::byte*>(blocks.data()) + blocks.size());
  }
  return m;
}

// Of the rows of log-probabilities `found` from `exact`: a row is far off where another expert is chosen, most are not.
double median_divergence(const std::vector<float>& exact, const std::vector<float>& found) {
  constexpr size_t kVocab = 512;
  std::vector<double> rows(exact.size() / kVocab);
  for (size_t i = 0; i < exact.size(); i++) rows[i / kVocab] += std::exp(exact[i]) * (double{exact[i]} - found.at(i));
  std::nth_element(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(rows.size() / 2), rows.end());
  return rows[rows.size() / 2];
}

// Activations rounded to 8 bits, those of the heads' matrices among them: close to what is computed without rounding,
// and the same bits for one row, a few and tiles of many, whatever the threads.
TEST(Deepseek2, RoundedActivationsStayCloseAndDependOnNothingBesideARow) {
  const TempDir dir;
  in_q8_0().write(dir.file("m.gguf"));
  GoldenModel golden = load_arch_golden(kArch);
  golden.path = dir.file("m.gguf");
  const auto bits_with = [&](const engine::EngineConfig& config, Cut cut) {
    std::vector<float> bits;
    EXPECT_GE(worst_difference(golden, config, cut, &bits), 0);
    return bits;
  };
  const std::vector<float> exact = bits_with(test_config(), Cut::kWhole);
  for (const char* isa : {"scalar", "avx2", "avx512vnni", "amx"}) {
    if (!kernels::select_kernels(isa).ok()) continue;
    SCOPED_TRACE(isa);
    engine::EngineConfig config = test_config();
    config.isa = isa;
    config.round_activations = true;
    const std::vector<float> whole = bits_with(config, Cut::kWhole);
    EXPECT_GT(largest_difference(whole, exact), 1e-3);
    EXPECT_LE(median_divergence(exact, whole), 1e-3);
    for (const Cut cut : {Cut::kChunksOf1, Cut::kChunksOf7, Cut::kChunksOf64}) {
      config.threads = cut == Cut::kChunksOf7 ? 3 : 1;
      EXPECT_TRUE(same_bits(bits_with(config, cut), whole)) << cut_name(cut);
    }
  }
}

model::HParams latent_hparams(int latent, int n_rot) {
  model::HParams hp;
  hp.n_layers = 2;
  hp.n_heads = 128;
  hp.n_kv_heads = 1;
  hp.key_dim = latent + n_rot;
  hp.value_dim = latent;
  hp.latent.kv_rank = latent;
  hp.recurrent = {false, false};
  return hp;
}

// One row a token and layer, without a second copy of the values.
TEST(LatentCache, ATokenTakesOneRow) {
  const model::HParams hp = latent_hparams(512, 64);
  EXPECT_EQ(model::StateMemory::token_bytes(hp, kernels::KvType::kF32), 576u * 4);
  EXPECT_EQ(model::StateMemory::token_bytes(hp, kernels::KvType::kF16), 576u * 2);
  EXPECT_EQ(model::StateMemory::token_bytes(hp, kernels::KvType::kQ8_0), 576u / 32 * 34);
  const model::StateLimits limits{.max_sequences = 3, .max_tokens = 64};
  EXPECT_EQ(model::StateMemory::bytes_needed(hp, 0, 2, limits, kernels::KvType::kF16), 2u * 3 * 64 * 576 * 2);
}

TEST(LatentCache, RowsThatDoNotDivideIntoBlocksAreRefusedWithTheirSizes) {
  for (const kernels::KvType type : kernels::kKvTypes) {
    EXPECT_TRUE(model::StateMemory::check_type(latent_hparams(512, 64), type).ok());
  }
  const Status status = model::StateMemory::check_type(latent_hparams(32, 16), kernels::KvType::kQ8_0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().message,
            "--kv-type q8_0 keeps values in blocks of 32, which a token's 48 values, 32 of them latent, do not divide "
            "into; use one of f32, f16, bf16");
}

// Sizes that contradict one another, each named by its key.
TEST(Deepseek2, Gguf29SizesOfALatentThatContradictAreRefused) {
  struct Row {
    const char* key;
    uint32_t value;
    const char* named;
  };
  const Row rows[] = {
      {"attention.kv_lora_rank", 0, "attention.kv_lora_rank"},
      {"attention.kv_lora_rank", 1024, "attention.kv_lora_rank"},
      {"attention.kv_lora_rank", 16, "attention.key_length"},
      {"attention.q_lora_rank", 1u << 31, "attention.q_lora_rank"},
      {"attention.q_lora_rank", 32, "blk.0.attn_q_a.weight"},
      {"attention.key_length_mla", 16, "attention.key_length_mla"},
      {"attention.key_length_mla", 32, "blk.0.attn_q_b.weight"},
      {"attention.value_length_mla", 0, "attention.value_length_mla"},
      {"attention.value_length_mla", 16, "blk.0.attn_v_b.weight"},
      {"attention.key_length", 40, "attention.key_length"},
      {"attention.value_length", 48, "attention.value_length"},
      {"attention.head_count_kv", 4, "attention.head_count_kv"},
      {"rope.dimension_count", 32, "rope.dimension_count"},
      {"expert_group_count", 3, "expert_group_"},
      {"expert_group_count", 9, "expert_group_count"},
      {"expert_group_used_count", 0, "expert_group_used_count"},
      {"expert_group_used_count", 5, "expert_group_used_count"},
      {"expert_gating_func", 4, "expert_gating_func"},
      {"expert_shared_count", 1u << 31, "expert_shared_count"},
      {"expert_shared_count", 2, "blk.1.ffn_gate_shexp.weight"},
      {"leading_dense_block_count", 3, "leading_dense_block_count"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.key) + " " + std::to_string(row.value));
    ModelCopy copy(kArch);
    copy.set_u32(row.key, row.value);
    expect_refused(open_copy(copy), {row.named});
  }
  for (const char* key : {"attention.kv_lora_rank", "rope.dimension_count", "expert_group_used_count"}) {
    SCOPED_TRACE(key);
    ModelCopy copy(kArch);
    copy.remove(key);
    expect_refused(open_copy(copy), {key});
  }
  for (const auto& [key, value] : {std::pair{"rope.scaling.yarn_log_multiplier", 1e30f},
                                   std::pair{"rope.scaling.yarn_log_multiplier", -0.1f},
                                   std::pair{"attention.temperature_scale", 0.1f}}) {
    SCOPED_TRACE(key);
    ModelCopy copy(kArch);
    copy.set_f32(key, value);
    expect_refused(open_copy(copy), {key});
  }
}

TEST(Deepseek2, ABiasForChoosingIsThereInAllLayersOrInNone) {
  ModelCopy one(kArch);
  one.remove_tensor("blk.2.exp_probs_b.bias");
  expect_refused(open_copy(one), {"blk.2.exp_probs_b.bias", "missing"});
  ModelCopy none(kArch);
  for (const char* name : {"blk.1.exp_probs_b.bias", "blk.2.exp_probs_b.bias"}) none.remove_tensor(name);
  const Status status = open_copy(none);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

}  // namespace
}  // namespace strata::test
