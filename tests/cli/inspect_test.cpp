// Goal: inspect describes every model there is, and texts from files do no harm.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/file.h"
#include "cli/models.h"
#include "cli/program.h"
#include "gguf/gguf.h"
#include "model/model_copy.h"

namespace strata::test {
namespace {

nlohmann::json inspect_json(const std::string& model) {
  const Outcome outcome = strata({"inspect", model, "--json"});
  EXPECT_TRUE(succeeded(outcome)) << model;
  return nlohmann::json::parse(outcome.out, nullptr, false);
}

std::string inspect_text(const std::string& model) {
  const Outcome outcome = strata({"inspect", model});
  EXPECT_TRUE(succeeded(outcome)) << model;
  return outcome.out;
}

TEST(Inspect, DescribesEveryGoldenModel) {
  const std::vector<std::string> models = golden_models();
  EXPECT_GE(models.size(), 7u);
  for (const std::string& path : models) {
    const nlohmann::json json = inspect_json(path);
    const auto model = gguf::Model::open(path, real_file_system());
    ASSERT_TRUE(model.ok());
    uint64_t parameters = 0, bytes = 0, layers_with_experts = 0;
    for (const gguf::TensorInfo& tensor : (*model)->tensors()) {
      parameters += tensor.n_elements;
      bytes += tensor.bytes;
      layers_with_experts += tensor.name.ends_with(".ffn_down_exps.weight");
    }
    EXPECT_EQ(json.at("parameters"), parameters) << path;
    EXPECT_EQ(json.at("tensor_bytes"), bytes);
    EXPECT_EQ(json.at("tensors"), (*model)->tensors().size());
    EXPECT_EQ(json.at("files").at(0).at("path"), path);
    EXPECT_EQ(json.at("files").at(0).at("bytes"), read_file(path).size());
    EXPECT_EQ(json.at("runs"), true) << json.at("reason");
    const std::string architecture = json.at("architecture");
    EXPECT_EQ(json.at("experts").size(), layers_with_experts) << path;

    const std::string text = inspect_text(path);
    EXPECT_NE(text.find("architecture  " + architecture + "\n"), std::string::npos);
    EXPECT_NE(text.find("parameters    " + std::to_string(parameters) + "\n"), std::string::npos);
    EXPECT_NE(text.find("runs here     yes\n"), std::string::npos);
  }
}

TEST(Inspect, KnowsTheDemoModel) {
  const nlohmann::json json = inspect_json(demo_model());
  EXPECT_EQ(json.at("parameters"), 29'955'328);  // models/README.md
  EXPECT_EQ(json.at("files").at(0).at("bytes"), 20'567'488);
  EXPECT_EQ(json.at("files").at(0).at("version"), 3);
  EXPECT_EQ(json.at("architecture"), "qwen3moe");
  ASSERT_EQ(json.at("experts").size(), 8u);
  // Gate and up: 256 x 128 in blocks of 256 with 144 bytes; down: 128 x 256 in blocks of 32 with 34 bytes.
  const nlohmann::json expected = {{"layer", 0},
                                   {"experts", 32},
                                   {"expert_bytes", 2 * 128 * 144 + 256 * 4 * 34},
                                   {"parts", {{"gate", "Q4_K"}, {"up", "Q4_K"}, {"down", "Q8_0"}}}};
  EXPECT_EQ(json.at("experts").at(0), expected);
  const nlohmann::json& tokens = json.at("metadata").at("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens.at("count"), 8192);
  EXPECT_EQ(tokens.at("type"), "string");
  EXPECT_EQ(tokens.at("first").size(), 8u);
  EXPECT_EQ(tokens.at("first").at(0), "<|endoftext|>");
  uint64_t n_tensors = 0;
  for (const nlohmann::json& type : json.at("types")) n_tensors += type.at("tensors").get<uint64_t>();
  EXPECT_EQ(n_tensors, json.at("tensors"));

  const std::string text = inspect_text(demo_model());
  EXPECT_NE(text.find("\n  layers 1 to 2: 32 of 58 KiB each: gate Q4_K, up Q4_K, down Q5_0\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  tokenizer.ggml.tokens = string[8192] \"<|endoftext|>\", "), std::string::npos);
  EXPECT_NE(text.find("  qwen3moe.attention.layer_norm_rms_epsilon = 1e-06\n"), std::string::npos);
}

TEST(Inspect, DescribesModelsThatItCannotRun) {
  const TempDir dir;
  const std::string model = dir.file("other.gguf");
  write_file(model, with_text(read_file(tiny_model()), "qwen3moe", "qwen9moe"));
  const nlohmann::json json = inspect_json(model);
  EXPECT_EQ(json.at("runs"), false);
  EXPECT_NE(json.at("reason").get<std::string>().find("architecture 'qwen9moe' is not supported"), std::string::npos);
  EXPECT_EQ(json.at("experts"), inspect_json(tiny_model()).at("experts"));
  EXPECT_NE(inspect_text(model).find("runs here     no: "), std::string::npos);
  EXPECT_TRUE(refused(strata({"run", model, "x"}), 2, "architecture 'qwen9moe' is not supported"));
}

// The last layer of a model declared to be a draft block: listed with its tensors, and no part of what runs.
TEST(Inspect, ListsDraftBlocksThatAreNotUsed) {
  const TempDir dir;
  ModelCopy copy("qwen3moe");
  copy.set_u32("nextn_predict_layers", 1);
  const uint32_t last = copy.get_u32("block_count") - 1;
  uint64_t tensors = 0, bytes = 0;
  for (const ModelCopy::Tensor& tensor : copy.tensors()) {
    if (!tensor.name.starts_with("blk." + std::to_string(last) + ".")) continue;
    tensors++;
    bytes += tensor.data.size();
  }
  const std::string model = dir.file("draft.gguf");
  const std::vector<std::byte> file = copy.bytes();
  write_file(model, {reinterpret_cast<const char*>(file.data()), file.size()});
  const nlohmann::json json = inspect_json(model);
  const nlohmann::json expected = {{"first_layer", last}, {"layers", 1}, {"tensors", tensors}, {"bytes", bytes}};
  EXPECT_EQ(json.at("draft"), expected);
  EXPECT_EQ(json.at("runs"), true) << json.at("reason");
  EXPECT_NE(inspect_text(model).find("\ndraft blocks (MTP), not used\n  layer " + std::to_string(last) + ": " +
                                     std::to_string(tensors) + " tensors, "),
            std::string::npos);
  EXPECT_TRUE(inspect_json(tiny_model()).at("draft").is_null());
}

TEST(Inspect, MissingExpertsAreAReason) {
  const TempDir dir;
  const std::string model = dir.file("gap.gguf");
  write_file(model, with_text(read_file(tiny_model()), "blk.1.ffn_down_exps.weight", "blk.1.ffn_down_expz.weight"));
  const nlohmann::json json = inspect_json(model);
  EXPECT_EQ(json.at("runs"), false);
  EXPECT_NE(json.at("reason").get<std::string>().find("ffn_down_exps"), std::string::npos) << json.at("reason");
}

TEST(Inspect, TextsOfFilesDoNoHarm) {
  const TempDir dir;
  const std::string model = dir.file("evil.gguf");
  // A token's text that clears screens, breaks lines and is not UTF-8.
  write_file(model, with_text(read_file(tiny_model()), "<|endoftext|>", "<\x1b[2J\n\xff\xc0\x9b\xc2\x9b|>"));
  const std::string text = inspect_text(model);
  EXPECT_NE(text.find("\"<?[2J?"), std::string::npos);
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << int{c};
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << "a C1 control character";
  const nlohmann::json json = inspect_json(model);
  EXPECT_TRUE(json.is_object());
  EXPECT_NE(json.dump().find("\\u001b[2J\\n"), std::string::npos);
}

}  // namespace
}  // namespace strata::test
