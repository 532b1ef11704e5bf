// Small models that carry nothing but a vocabulary, written to a file and opened as any other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "support/golden.h"
#include "text/tokenizer.h"

namespace strata::text::test {

// Begins as the 256 byte tokens (ids 0 to 255 are the bytes) with pre-tokenizer qwen2; what a test adds or overwrites
// makes the rest.
class TokenizerModel {
 public:
  TokenizerModel();

  // Adds a token and gives its id.
  int32_t add(std::string text, TokenType type = TokenType::kNormal);
  // Adds the merge of two token texts (in the byte alphabet), and the token it makes unless there is one.
  void merge(const std::string& left, const std::string& right);

  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::vector<float> scores;           // not in the file if empty
  std::string model = "gpt2";
  std::string pre = "qwen2";           // "" leaves the key out
  bool with_tokens = true, with_types = true, with_merges = true;
  // Other keys, or those left out above in another form.
  std::function<void(gguf::Writer&)> more_keys = [](gguf::Writer&) {};

  // The opened file; fails the running test and gives nullptr when the container itself is refused.
  std::unique_ptr<gguf::Model> open() const;
  Result<std::unique_ptr<Tokenizer>> load() const;
  // For vocabularies that must load: nullptr after failing the test.
  std::unique_ptr<Tokenizer> must_load() const;

 private:
  ::strata::test::TempDir directory_;
};

// A SentencePiece-style model: ids 0 to 2 are <unk>, <s> and </s>, 3 to 258 the bytes; what a test adds makes the rest.
class SpmModel : public TokenizerModel {
 public:
  SpmModel();

  // Adds a piece and gives its id.
  int32_t add_piece(std::string text, float score, TokenType type = TokenType::kNormal);
};

inline constexpr int32_t kSpmFirstByte = 3;

// Ids of a text that must be encodable.
std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false);

}  // namespace strata::text::test
