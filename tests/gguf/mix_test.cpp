// Which type each tensor gets: rules worked out by hand, and files that another program wrote.
#include "gguf/quantize/mix.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/file.h"
#include "gguf/gguf_builder.h"
#include "gguf/support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using gguf::FileType;
using gguf::ModelShape;
using gguf::TensorInfo;
using quant::Type;

const FileType& file_type(const std::string& name) {
  const auto found = gguf::find_file_type(name);
  EXPECT_TRUE(found.ok()) << name;
  return **found;
}

TensorInfo tensor(const std::string& name, std::vector<uint64_t> ne, Type type = Type::F32) {
  TensorInfo info{.name = name, .type = type, .n_dims = static_cast<int>(ne.size())};
  info.n_elements = 1;
  for (size_t i = 0; i < ne.size(); i++) info.ne[i] = ne[i];
  for (const uint64_t n : ne) info.n_elements *= n;
  return info;
}

struct Spec {
  int64_t n_layers = 48;
  int64_t n_experts = 128;
  int64_t n_kv_heads = 32;  // of 32
  bool tied = false;
  uint64_t expert_ffn = 768;
};

std::vector<TensorInfo> tensors_of(const Spec& spec) {
  const auto experts = static_cast<uint64_t>(spec.n_experts);
  std::vector<TensorInfo> all = {tensor("token_embd.weight", {2048, 1000}), tensor("output_norm.weight", {2048})};
  if (!spec.tied) all.push_back(tensor("output.weight", {2048, 1000}));
  for (int64_t i = spec.n_layers - 1; i >= 0; i--) {  // the order in the file must not matter
    const std::string blk = "blk." + std::to_string(i) + ".";
    all.push_back(tensor(blk + "attn_norm.weight", {2048}));
    all.push_back(tensor(blk + "attn_q.weight", {2048, 4096}));
    all.push_back(tensor(blk + "attn_k.weight", {2048, 512}));
    all.push_back(tensor(blk + "attn_v.weight", {2048, 512}));
    all.push_back(tensor(blk + "attn_output.weight", {4096, 2048}));
    all.push_back(tensor(blk + "ffn_gate_inp.weight", {2048, experts}));
    all.push_back(tensor(blk + "ffn_gate_exps.weight", {2048, spec.expert_ffn, experts}));
    all.push_back(tensor(blk + "ffn_up_exps.weight", {2048, spec.expert_ffn, experts}));
    all.push_back(tensor(blk + "ffn_down_exps.weight", {spec.expert_ffn, 2048, experts}));
    all.push_back(tensor(blk + "ffn_down_shexp.weight", {spec.expert_ffn, 2048}));
  }
  return all;
}

// Type of every tensor by name.
using Types = std::map<std::string, Type>;
Types types_of(const std::string& file, const Spec& spec, bool pure = false) {
  const std::vector<TensorInfo> tensors = tensors_of(spec);
  const ModelShape shape{spec.n_layers, spec.n_experts, 32, spec.n_kv_heads};
  const auto choices = gguf::choose_types(file_type(file), shape, tensors, pure);
  Types types;
  for (size_t i = 0; i < tensors.size(); i++) types[tensors[i].name] = choices[i].type;
  return types;
}

// The layers whose tensor of this name has this type.
std::set<int> layers_with(const Types& types, const std::string& name, Type type) {
  std::set<int> layers;
  for (int i = 0; i < 200; i++) {
    const auto found = types.find("blk." + std::to_string(i) + "." + name);
    if (found != types.end() && found->second == type) layers.insert(i);
  }
  return layers;
}

std::set<int> range(int begin, int end) {
  std::set<int> all;
  for (int i = begin; i < end; i++) all.insert(i);
  return all;
}

// The first and the last eighth of 48 layers, and every third between.
const std::set<int> kMoreOf48 = {0,  1,  2,  3,  4,  5,  8,  11, 14, 17, 20, 23,
                                 26, 29, 32, 35, 38, 41, 42, 43, 44, 45, 46, 47};

TEST(Mix, MoreBitsCountsAsPublished) {
  const struct { int64_t n; size_t layers; } cases[] = {{48, 24}, {61, 30}, {94, 46}};
  for (const auto& c : cases) {
    size_t layers = 0;
    for (int64_t i = 0; i < c.n; i++) layers += gguf::holds(gguf::When::kMoreBits, {.index = i, .count = c.n});
    EXPECT_EQ(layers, c.layers) << c.n;
  }
}

TEST(Mix, Q4KMOf48Layers) {
  const Types types = types_of("Q4_K_M", {});
  EXPECT_EQ(types.at("output.weight"), Type::Q6_K);
  EXPECT_EQ(types.at("token_embd.weight"), Type::Q4_K);
  for (const char* better : {"attn_v.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight"}) {
    EXPECT_EQ(layers_with(types, better, Type::Q6_K), kMoreOf48) << better;
    EXPECT_EQ(layers_with(types, better, Type::Q4_K).size(), 24u) << better;
  }
  for (const char* base : {"attn_q.weight", "attn_k.weight", "attn_output.weight", "ffn_gate_exps.weight",
                           "ffn_up_exps.weight"}) {
    EXPECT_EQ(layers_with(types, base, Type::Q4_K), range(0, 48)) << base;
  }
  for (const char* kept : {"attn_norm.weight", "ffn_gate_inp.weight"}) {
    EXPECT_EQ(layers_with(types, kept, Type::F32), range(0, 48)) << kept;
  }
}

TEST(Mix, OtherKindsOf48Layers) {
  Types types = types_of("Q4_K_S", {});
  EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q5_K), range(0, 4));
  EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q4_K), range(4, 48));
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q5_K), range(0, 6));
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q4_K), range(6, 48));

  types = types_of("Q5_K_M", {});
  EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q6_K), kMoreOf48);
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q6_K), kMoreOf48);
  EXPECT_EQ(layers_with(types, "attn_output.weight", Type::Q5_K), range(0, 48));

  types = types_of("Q3_K_M", {});
  EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q5_K), range(0, 2));
  EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q4_K), range(2, 48));
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q5_K), range(0, 3));
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q4_K), range(3, 48));
  EXPECT_EQ(layers_with(types, "attn_output.weight", Type::Q4_K), range(0, 48));
  EXPECT_EQ(layers_with(types, "attn_q.weight", Type::Q3_K), range(0, 48));

  types = types_of("Q2_K", {});
  EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q3_K), range(0, 48));
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q3_K), range(0, 48));
  EXPECT_EQ(layers_with(types, "attn_output.weight", Type::Q3_K), range(0, 48));
  EXPECT_EQ(layers_with(types, "attn_k.weight", Type::Q2_K), range(0, 48));

  for (const char* name : {"IQ4_XS", "IQ4_NL"}) {
    const Type base = file_type(name).base;
    types = types_of(name, {});
    EXPECT_EQ(layers_with(types, "attn_v.weight", base), range(0, 48));
    EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q5_K), range(0, 6));
    EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", base), range(6, 48));
    EXPECT_EQ(types.at("output.weight"), Type::Q6_K);
    EXPECT_EQ(types.at("token_embd.weight"), base);
  }
}

TEST(Mix, KindsWithoutRules) {
  const struct { const char* name; Type base, output, embedding; } kinds[] = {
      {"Q8_0", Type::Q8_0, Type::Q8_0, Type::Q8_0},  {"Q6_K", Type::Q6_K, Type::Q6_K, Type::Q6_K},
      {"Q5_K_S", Type::Q5_K, Type::Q6_K, Type::Q5_K}, {"Q4_0", Type::Q4_0, Type::Q6_K, Type::Q4_0},
      {"Q5_1", Type::Q5_1, Type::Q6_K, Type::Q5_1},  {"TQ1_0", Type::TQ1_0, Type::Q6_K, Type::Q4_K},
      {"TQ2_0", Type::TQ2_0, Type::Q6_K, Type::Q4_K}, {"F16", Type::F16, Type::F16, Type::F16},
      {"BF16", Type::BF16, Type::BF16, Type::BF16},  {"F32", Type::F32, Type::F32, Type::F32}};
  for (const auto& kind : kinds) {
    const Types types = types_of(kind.name, {});
    EXPECT_EQ(types.at("output.weight"), kind.output) << kind.name;
    EXPECT_EQ(types.at("token_embd.weight"), kind.embedding) << kind.name;
    for (const char* name : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
                             "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"}) {
      EXPECT_EQ(layers_with(types, name, kind.base), range(0, 48)) << kind.name << " " << name;
    }
    EXPECT_EQ(types.at("output_norm.weight"), Type::F32);
  }
}

TEST(Mix, Mxfp4IsForExpertsOnly) {
  const Types types = types_of("MXFP4_MOE", {});
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::MXFP4), range(0, 48));
  EXPECT_EQ(layers_with(types, "ffn_gate_exps.weight", Type::MXFP4), range(0, 48));
  for (const char* name : {"ffn_down_shexp.weight", "attn_v.weight", "attn_q.weight", "attn_output.weight"}) {
    EXPECT_EQ(layers_with(types, name, Type::Q8_0), range(0, 48)) << name;
  }
  EXPECT_EQ(types.at("output.weight"), Type::Q8_0);
  EXPECT_EQ(types.at("token_embd.weight"), Type::Q8_0);
}

TEST(Mix, FourHeadsToAKeyRaiseAttnV) {
  const struct { const char* name; Type type; } cases[] = {
      {"IQ4_XS", Type::Q5_K}, {"IQ4_NL", Type::Q5_K}, {"Q2_K", Type::Q4_K}};
  for (const auto& c : cases) {
    const Types four = types_of(c.name, {.n_kv_heads = 8});
    EXPECT_EQ(layers_with(four, "attn_v.weight", c.type), range(0, 48)) << c.name;
    EXPECT_EQ(layers_with(four, "attn_k.weight", file_type(c.name).base), range(0, 48)) << c.name;
    const Types two = types_of(c.name, {.n_kv_heads = 16});
    EXPECT_EQ(layers_with(two, "attn_v.weight", c.type), std::set<int>{}) << c.name;
    const Types none = types_of(c.name, {.n_kv_heads = 0});
    EXPECT_EQ(layers_with(none, "attn_v.weight", c.type), std::set<int>{}) << c.name;
  }
}

TEST(Mix, EightExpertsRaiseAttention) {
  for (const FileType& file : gguf::file_types()) {
    if (quant::info(file.base).block_elems == 1 || file.experts_only) continue;
    const Types types = types_of(file.name, {.n_layers = 32, .n_experts = 8});
    EXPECT_EQ(layers_with(types, "attn_v.weight", Type::Q8_0), range(0, 32)) << file.name;
    EXPECT_EQ(layers_with(types, "attn_k.weight", Type::Q8_0), range(0, 32)) << file.name;
    const std::set<std::string> raised = {"Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M", "IQ4_NL", "IQ4_XS"};
    const Type attn_output = raised.contains(file.name) ? Type::Q5_K : file.base;
    EXPECT_EQ(layers_with(types, "attn_output.weight", attn_output), range(0, 32)) << file.name;
    EXPECT_EQ(layers_with(types, "attn_q.weight", file.base), range(0, 32)) << file.name;
  }
  const Types down = types_of("Q4_K_M", {.n_layers = 32, .n_experts = 8});
  EXPECT_EQ(layers_with(down, "ffn_down_exps.weight", Type::Q6_K),
            (std::set<int>{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}));
}

TEST(Mix, ATiedEmbeddingIsTheOutput) {
  EXPECT_EQ(types_of("Q4_K_M", {.tied = true}).at("token_embd.weight"), Type::Q6_K);
  EXPECT_EQ(types_of("TQ1_0", {.tied = true}).at("token_embd.weight"), Type::Q6_K);
  EXPECT_EQ(types_of("Q8_0", {.tied = true}).at("token_embd.weight"), Type::Q8_0);
  EXPECT_EQ(types_of("MXFP4_MOE", {.tied = true}).at("token_embd.weight"), Type::Q8_0);
}

TEST(Mix, PureIsOneType) {
  const Types types = types_of("Q4_K", {.n_experts = 8, .n_kv_heads = 4}, true);
  for (const auto& [name, type] : types) {
    const bool kept = name.find("norm") != std::string::npos || name.find("gate_inp") != std::string::npos;
    EXPECT_EQ(type, kept ? Type::F32 : Type::Q4_K) << name;
  }
}

// Experts of 1408: a multiple of 32 and of nothing larger that matters.
TEST(Mix, NarrowRowsFallBack) {
  const Types types = types_of("Q4_K_M", {.expert_ffn = 1408});
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q8_0), kMoreOf48);
  EXPECT_EQ(layers_with(types, "ffn_down_exps.weight", Type::Q5_0).size(), 24u);
  EXPECT_EQ(layers_with(types, "ffn_gate_exps.weight", Type::Q4_K), range(0, 48));
}

TEST(Mix, EveryTypeHasItsFallback) {
  const struct { Type wanted, fits32; } cases[] = {
      {Type::IQ4_XS, Type::IQ4_NL}, {Type::Q2_K, Type::Q4_0}, {Type::Q3_K, Type::Q4_0}, {Type::TQ1_0, Type::Q4_0},
      {Type::TQ2_0, Type::Q4_0},    {Type::Q2_0, Type::Q4_0}, {Type::Q4_K, Type::Q5_0}, {Type::Q5_K, Type::Q5_1},
      {Type::Q6_K, Type::Q8_0}};
  for (const auto& [wanted, fits32] : cases) {
    EXPECT_EQ(gguf::fitting_type(wanted, 512), wanted);
    EXPECT_EQ(gguf::fitting_type(wanted, 288), fits32);
    EXPECT_EQ(gguf::fitting_type(wanted, 100), Type::F16);
  }
  for (const Type wanted : {Type::Q4_0, Type::Q8_0, Type::IQ4_NL, Type::MXFP4}) {
    EXPECT_EQ(gguf::fitting_type(wanted, 288), wanted);
    EXPECT_EQ(gguf::fitting_type(wanted, 100), Type::F16);
  }
  EXPECT_EQ(gguf::fitting_type(Type::Q1_0, 192), Type::F16);
  EXPECT_EQ(gguf::fitting_type(Type::NVFP4, 96), Type::F16);
  EXPECT_EQ(gguf::fitting_type(Type::BF16, 7), Type::BF16);
}

TEST(Mix, AnOutputThatDoesNotFitIsQ8) {
  const std::vector<TensorInfo> tensors = {tensor("output.weight", {288, 100})};
  EXPECT_EQ(gguf::choose_types(file_type("Q4_K_M"), {}, tensors, false)[0].type, Type::Q8_0);
  // Blocks of 32 fit, but Q6_K, which they make it, does not.
  EXPECT_EQ(gguf::choose_types(file_type("Q4_0"), {}, tensors, false)[0].type, Type::Q8_0);
}

TEST(Mix, SmallAndDelicateTensorsAreKept) {
  EXPECT_TRUE(gguf::is_quantised(tensor("blk.0.attn_q.weight", {64, 2})));
  EXPECT_TRUE(gguf::is_quantised(tensor("blk.0.ffn_up_exps.weight", {64, 2, 2}, Type::Q8_0)));
  EXPECT_TRUE(gguf::is_quantised(tensor("blk.0.ffn_up_exps.weight", {64, 1, 2})));
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.attn_norm.weight", "blk.0.attn_q_norm.weight",
                           "blk.0.ffn_gate_inp.weight", "blk.0.ssm_conv1d.weight", "blk.0.exp_probs_b",
                           "position_embd.weight", "blk.0.time_mix_w1.weight",
                           "blk.0.ffn_gate_tid2eid.weight", "blk.0.attn_q.scale"}) {
    EXPECT_FALSE(gguf::is_quantised(tensor(name, {64, 64}))) << name;
  }
  EXPECT_FALSE(gguf::is_quantised(tensor("blk.0.ffn_gate_inp_shexp.weight", {64})));
  EXPECT_FALSE(gguf::is_quantised(tensor("blk.0.x.weight", {64, 1, 1})));
  EXPECT_FALSE(gguf::is_quantised(tensor("blk.0.table.weight", {64, 64}, Type::I32)));
}

// Without experts, ffn_down is counted like attn_v; a layer's number may be missing.
TEST(Mix, DenseModelsCountTheirTensors) {
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 16; i++) tensors.push_back(tensor("blk." + std::to_string(i) + ".ffn_down.weight", {256, 256}));
  tensors.push_back(tensor("ffn_down.weight", {256, 256}));  // comes first
  const auto choices = gguf::choose_types(file_type("Q4_K_S"), {.n_layers = 16}, tensors, false);
  for (size_t i = 0; i < 16; i++) EXPECT_EQ(choices[i].type, i < 1 ? Type::Q5_K : Type::Q4_K) << i;
  EXPECT_EQ(choices[16].type, Type::Q5_K);
}

TEST(Mix, ReadsTheShapeOfAModel) {
  GgufBuilder builder;
  builder.string("general.architecture", "x").u32("x.block_count", 5).u32("x.expert_count", 8);
  builder.array("x.attention.head_count", 4, 2, ByteString().u32(12).u32(9)).u32("x.attention.head_count_kv", 3);
  const auto model = open_bytes(builder.bytes());
  ASSERT_TRUE(model.ok());
  const ModelShape shape = gguf::read_shape(**model);
  EXPECT_EQ(shape.n_layers, 5);
  EXPECT_EQ(shape.n_experts, 8);
  EXPECT_EQ(shape.n_heads, 12);
  EXPECT_EQ(shape.n_kv_heads, 3);
}

TEST(Mix, AShapeThatSaysNonsenseIsIgnored) {
  GgufBuilder builder;
  builder.string("general.architecture", "x").u64("x.block_count", INT64_MAX).string("x.expert_count", "many");
  builder.i32("x.attention.head_count", -4);
  const auto model = open_bytes(builder.bytes());
  ASSERT_TRUE(model.ok());
  const ModelShape shape = gguf::read_shape(**model);
  EXPECT_EQ(shape.n_layers, 0);
  EXPECT_EQ(shape.n_experts, 0);
  EXPECT_EQ(shape.n_heads, 0);
  EXPECT_EQ(shape.n_kv_heads, 0);
}

// llama-quantize made these from one float32 model.
TEST(Mix, ReproducesFilesOfLlamaQuantize) {
  const struct { const char* file; const char* type; } cases[] = {{"models/moe-a-q8_0.gguf", "Q8_0"},
                                                                  {"models/moe-a-q4_k_m.gguf", "Q4_K_M"},
                                                                  {"models/moe-a-iq4_xs.gguf", "IQ4_XS"}};
  for (const auto& c : cases) {
    const auto model = gguf::Model::open(golden_path(c.file), real_file_system());
    ASSERT_TRUE(model.ok()) << c.file;
    std::vector<TensorInfo> originals = (*model)->tensors();
    for (TensorInfo& original : originals) original.type = Type::F32;
    const auto choices = gguf::choose_types(file_type(c.type), gguf::read_shape(**model), originals, false);
    for (size_t i = 0; i < originals.size(); i++) {
      EXPECT_EQ(quant::info(choices[i].type).name, std::string(quant::info((*model)->tensors()[i].type).name))
          << c.file << " " << originals[i].name;
    }
    const auto number = (*model)->require_int("general.file_type", 0, 1000);
    ASSERT_TRUE(number.ok());
    EXPECT_EQ(file_type(c.type).number, *number) << c.file;
  }
}

TEST(FileTypes, AreFoundByNameAndAlias) {
  std::set<uint32_t> numbers;
  for (const FileType& file : gguf::file_types()) {
    EXPECT_EQ(&file_type(file.name), &file);
    EXPECT_TRUE(numbers.insert(file.number).second) << file.name;
    EXPECT_NE(gguf::file_type_names().find(file.name), std::string::npos);
  }
  EXPECT_STREQ(file_type("q4_k_m").name, "Q4_K_M");
  EXPECT_STREQ(file_type("Q4_K").name, "Q4_K_M");
  EXPECT_STREQ(file_type("Q5_K").name, "Q5_K_M");
  EXPECT_STREQ(file_type("Q3_K").name, "Q3_K_M");
  EXPECT_STREQ(file_type("MXFP4").name, "MXFP4_MOE");
}

TEST(FileTypes, OthersAreRefused) {
  for (const char* name : {"IQ1_S", "IQ2_XXS", "iq3_s", "IQ3_M", "Q2_K_S"}) {
    const auto found = gguf::find_file_type(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kUnsupported) << name;
    EXPECT_NE(found.error().message.find("importance"), std::string::npos);
  }
  for (const char* name : {"", "Q4", "Q4_K_", "Q4_K_ML", "Q9_0", "Q4_K_M\n"}) {
    const auto found = gguf::find_file_type(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kBadInput) << name;
    EXPECT_NE(found.error().message.find("Q4_K_M, "), std::string::npos);
  }
}

}  // namespace
}  // namespace strata::test
