// Token ids that an independent tokenizer gave, on the vocabularies of the golden models and of the demo model.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/golden.h"
#include "text/tokenizer.h"

namespace strata::text {
namespace {

std::unique_ptr<Tokenizer> load(const std::string& path) {
  auto model = gguf::Model::open(path, real_file_system());
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  auto tokenizer = Tokenizer::load(**model);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.error().message;
    return nullptr;
  }
  return std::move(tokenizer).value();
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(std::ifstream(path)); }

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  auto ids = tokenizer.encode(text, {.parse_special = parse_special, .add_bos = tokenizer.add_bos()});
  EXPECT_TRUE(ids.ok()) << text;
  return ids.ok() ? *ids : std::vector<int32_t>{};
}

// T01: among the texts are accents, composed and decomposed.
TEST(TokenizerGolden, IdsAreThoseOfTheReference) {
  const auto tokenizer = load(test::golden_path("models/moe-a-q8_0.gguf"));
  ASSERT_NE(tokenizer, nullptr);
  const nlohmann::json cases = read_json(test::golden_path("models/tokenizer.json"));
  ASSERT_GE(cases.size(), 40u);
  for (const auto& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<std::vector<int32_t>>();
    const auto plain_ids = entry["ids_no_special"].get<std::vector<int32_t>>();
    EXPECT_EQ(encode(*tokenizer, text, true), ids) << text;
    EXPECT_EQ(encode(*tokenizer, text, false), plain_ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, true), text);
    EXPECT_EQ(tokenizer->decode(plain_ids), text);
  }
}

TEST(TokenizerGolden, RolesOfTheGoldenVocabulary) {
  const auto tokenizer = load(test::golden_path("models/moe-a-q8_0.gguf"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 1024);
  EXPECT_EQ(tokenizer->bos(), 1021);
  EXPECT_EQ(tokenizer->eos(), 1023);
  EXPECT_EQ(tokenizer->eot(), 1023);  // no key: <|im_end|> by its text
  EXPECT_FALSE(tokenizer->add_bos());
  EXPECT_TRUE(tokenizer->warnings().empty());
  EXPECT_EQ(tokenizer->token_type(1022), TokenType::kControl);
  for (int32_t id = 0; id < 1024; ++id) {
    EXPECT_EQ(tokenizer->is_end_of_generation(id), id == 1021 || id == 1023) << id;
  }
}

TEST(TokenizerGolden, DemoTextGivesTheReferenceIds) {
  const auto tokenizer = load(std::string(STRATA_MODELS_DIR) + "/tales-moe-q4_k_m.gguf");
  ASSERT_NE(tokenizer, nullptr);
  const nlohmann::json reference = read_json(test::golden_path("demo/reference.json"));
  const auto ids = reference["ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(encode(*tokenizer, reference["text"].get<std::string>(), true), ids);
  EXPECT_EQ(tokenizer->decode(ids), reference["text"].get<std::string>());
}

// T01. The vocabulary has no composed accents, so both forms fall to bytes; what matters is that they are not confused.
TEST(TokenizerGolden, ComposedAndDecomposedTextStaysWhatItIs) {
  const auto tokenizer = load(test::golden_path("models/moe-a-q8_0.gguf"));
  ASSERT_NE(tokenizer, nullptr);
  const std::string composed = "Hello world! Caf\u00E9 d\u00E9j\u00E0 vu \u2014 123 \U0001F60A";
  const std::string decomposed = "Hello world! Cafe\u0301 de\u0301ja\u0300 vu \u2014 123 \U0001F60A";
  const auto composed_ids = encode(*tokenizer, composed, false);
  const auto decomposed_ids = encode(*tokenizer, decomposed, false);
  EXPECT_NE(composed_ids, decomposed_ids);
  EXPECT_EQ(tokenizer->decode(composed_ids), composed);
  EXPECT_EQ(tokenizer->decode(decomposed_ids), decomposed);
}

}  // namespace
}  // namespace strata::text
