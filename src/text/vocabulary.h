// The tokens of a model: texts, types and the ids with a role. Everything is checked when it is loaded; afterwards it
// does not change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace strata::text {

// As stored in tokenizer.ggml.token_type.
enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Types of tokens that stand for their text in any text, be it a user's.
constexpr bool is_plain(TokenType type) { return type == TokenType::kNormal || type == TokenType::kUserDefined; }

inline constexpr uint64_t kMaxTokens = uint64_t{1} << 20;
inline constexpr int32_t kNoToken = -1;

class Vocabulary {
 public:
  // Reads tokens, token_type and scores of tokenizer.ggml. kBadInput names file, key and index.
  static Result<Vocabulary> load(const gguf::Model& model);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }
  // Text as stored; "[EMPTY_id]" where the file has none. id must be of the vocabulary, here and below.
  std::string_view text(int32_t id) const;
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  void set_type(int32_t id, TokenType type) { types_[static_cast<size_t>(id)] = type; }
  // kNoToken when no token has this text.
  int32_t find(std::string_view text) const;

 private:
  Vocabulary() = default;
  Status load_texts(const gguf::Model& model);
  Status load_types(const gguf::Model& model);

  std::vector<char> texts_;        // one after the other
  std::vector<uint64_t> offsets_;  // size() + 1
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys view texts_, which moves with its owner
};

// Ids with a role; kNoToken where the model has none.
struct TokenRoles {
  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t eot = kNoToken;
  int32_t unknown = kNoToken;
  bool add_bos = false;                  // whether prompts of this model begin with bos
  std::vector<bool> end_of_generation;   // by id: sampling it ends an answer
  std::vector<bool> always_shown;        // by id: a control token that is part of what people read
};

// What a kind of vocabulary means where a key is missing. An id counts only if the token has the type that goes with
// it: control, or unknown for `unknown`.
struct RoleDefaults {
  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t unknown = kNoToken;
  bool add_bos = false;
};

// Finds the roles by the model's keys, else by the defaults and by well-known texts, and turns tokens with the text of
// an end of generation into control tokens. kBadInput names file and key of an id outside the vocabulary.
Result<TokenRoles> load_roles(const gguf::Model& model, Vocabulary& vocabulary, const RoleDefaults& defaults);

}  // namespace strata::text
