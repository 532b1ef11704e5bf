#include "text/oracle_tokenizer/vocabulary_file.h"

#include <fstream>
#include <unordered_map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gguf/writer.h"
#include "text/vocabulary.h"

namespace strata::text::test {

namespace {

using nlohmann::json;

// Scores of tokens that no merge makes: characters, bytes and added tokens.
constexpr float kNoMerge = -1e6f, kAdded = -1000.0f;

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

std::pair<std::string, std::string> parts_of_merge(const json& merge) {
  if (merge.is_array()) return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto line = merge.get<std::string>();
  const size_t space = line.find(' ', 1);
  return {line.substr(0, space), line.substr(space + 1)};
}

// Converters take what looks like a control token for one, whatever its flag says.
bool looks_special(const std::string& text) {
  const auto between = [&text](const std::string& front, const std::string& back) {
    return text.starts_with(front) && text.ends_with(back);
  };
  return between("<|", "|>") || between("<\uFF5C", "\uFF5C>") || between("<unused", ">") || text == "<pad>" ||
         text == "<mask>";
}

bool is_byte_token(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

void set_token(Tokens& tokens, size_t id, std::string text, TokenType type, float score) {
  tokens.texts.at(id) = std::move(text);
  tokens.types.at(id) = static_cast<int32_t>(type);
  tokens.scores.at(id) = score;
}

// The score of a token is less the rank of the first merge that makes it: the order that merges and scores agree on.
std::unordered_map<std::string, float> scores_of_merges(const json& merges) {
  std::unordered_map<std::string, float> scores;
  float score = 0;
  for (const json& merge : merges) {
    const auto [left, right] = parts_of_merge(merge);
    scores.emplace(left + right, score);
    score -= 1;
  }
  return scores;
}

Tokens read_tokens(const json& file, const VocabularyForm& form) {
  const bool spm = form.model == "llama";
  Tokens tokens;
  for (size_t id = 0; id < form.n_tokens; ++id) {
    tokens.texts.push_back("[PAD" + std::to_string(id) + "]");
    tokens.types.push_back(static_cast<int32_t>(TokenType::kUnused));
    tokens.scores.push_back(kNoMerge);
  }
  const auto scores = spm ? scores_of_merges(file["model"]["merges"]) : std::unordered_map<std::string, float>{};
  for (const auto& [text, id] : file["model"]["vocab"].items()) {
    const auto score = scores.find(text);
    const TokenType type = spm && is_byte_token(text) ? TokenType::kByte : TokenType::kNormal;
    set_token(tokens, id.get<size_t>(), text, type, score == scores.end() ? kNoMerge : score->second);
  }
  for (const json& added : file["added_tokens"]) {
    auto text = added["content"].get<std::string>();
    const bool control = added["special"].get<bool>() || looks_special(text);
    // User-defined tokens are found in raw text, so their spaces are written as such.
    for (size_t at; !control && spm && (at = text.find("\u2581")) != std::string::npos;) text.replace(at, 3, " ");
    const bool unknown = spm && text == "<unk>";
    const TokenType type =
        unknown ? TokenType::kUnknown : control ? TokenType::kControl : TokenType::kUserDefined;
    set_token(tokens, added["id"].get<size_t>(), text, type, kAdded);
  }
  return tokens;
}

std::vector<std::string> read_merges(const json& file) {
  std::vector<std::string> merges;
  for (const json& merge : file["model"]["merges"]) {
    const auto [left, right] = parts_of_merge(merge);
    merges.push_back(left + " " + right);
  }
  return merges;
}

}  // namespace

std::unique_ptr<gguf::Model> write_vocabulary(const std::string& tokenizer_json, const VocabularyForm& form,
                                              const std::string& path) {
  const json file = json::parse(std::ifstream(tokenizer_json));
  const Tokens tokens = read_tokens(file, form);
  gguf::Writer writer("test");
  writer.set_string("tokenizer.ggml.model", form.model);
  writer.set_strings("tokenizer.ggml.tokens", tokens.texts);
  writer.set_i32s("tokenizer.ggml.token_type", tokens.types);
  if (form.model == "llama") {
    writer.set_f32s("tokenizer.ggml.scores", tokens.scores);
    writer.set_bool("tokenizer.ggml.add_space_prefix", form.add_space_prefix);
  } else {
    writer.set_string("tokenizer.ggml.pre", form.pre);
    writer.set_strings("tokenizer.ggml.merges", read_merges(file));
  }
  if (const Status written = writer.write(path); !written.ok()) {
    ADD_FAILURE() << written.error().message;
    return nullptr;
  }
  auto opened = gguf::Model::open(path, real_file_system());
  if (!opened.ok()) {
    ADD_FAILURE() << opened.error().message;
    return nullptr;
  }
  return std::move(opened).value();
}

}  // namespace strata::text::test
