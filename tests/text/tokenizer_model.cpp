#include "text/tokenizer_model.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/format.h"
#include "text/byte_alphabet.h"

namespace strata::text::test {

TokenizerModel::TokenizerModel() {
  for (int byte = 0; byte < 256; ++byte) add(std::string(byte_character(static_cast<uint8_t>(byte))));
}

int32_t TokenizerModel::add(std::string text, TokenType type) {
  tokens.push_back(std::move(text));
  types.push_back(static_cast<int32_t>(type));
  return static_cast<int32_t>(tokens.size()) - 1;
}

void TokenizerModel::merge(const std::string& left, const std::string& right) {
  merges.push_back(left + " " + right);
  if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) add(left + right);
}

std::unique_ptr<gguf::Model> TokenizerModel::open() const {
  gguf::Writer writer("test");
  writer.set_string("tokenizer.ggml.model", model);
  if (!pre.empty()) writer.set_string("tokenizer.ggml.pre", pre);
  if (with_tokens) writer.set_strings("tokenizer.ggml.tokens", tokens);
  if (with_types) writer.set_i32s("tokenizer.ggml.token_type", types);
  if (!scores.empty()) writer.set_f32s("tokenizer.ggml.scores", scores);
  if (with_merges) writer.set_strings("tokenizer.ggml.merges", merges);
  more_keys(writer);
  const std::string path = directory_.file("model.gguf");
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

Result<std::unique_ptr<Tokenizer>> TokenizerModel::load() const {
  const std::unique_ptr<gguf::Model> opened = open();
  if (opened == nullptr) return Error{ErrorCode::kInternal, "the test's file did not open"};
  return Tokenizer::load(*opened);
}

std::unique_ptr<Tokenizer> TokenizerModel::must_load() const {
  auto tokenizer = load();
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.error().message;
    return nullptr;
  }
  return std::move(tokenizer).value();
}

SpmModel::SpmModel() {
  model = "llama";
  pre.clear();
  with_merges = false;
  tokens.clear();
  types.clear();
  add_piece("<unk>", 0, TokenType::kUnknown);
  add_piece("<s>", 0, TokenType::kControl);
  add_piece("</s>", 0, TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) add_piece(format("<0x{:02X}>", byte), 0, TokenType::kByte);
}

int32_t SpmModel::add_piece(std::string text, float score, TokenType type) {
  scores.push_back(score);
  return add(std::move(text), type);
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  auto ids = tokenizer.encode(text, {.parse_special = parse_special, .add_bos = false});
  if (!ids.ok()) {
    ADD_FAILURE() << ids.error().message;
    return {};
  }
  return std::move(ids).value();
}

}  // namespace strata::text::test
