// Kinds of vocabularies (tokenizer.ggml.model): how the text between special tokens becomes tokens, and how the texts
// of tokens are written. One row per kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace strata::text {

// Immutable; any thread.
class FragmentEncoder {
 public:
  virtual ~FragmentEncoder() = default;

  // Appends the tokens of `text`: valid UTF-8, not empty, at most 4 GiB - 2. `opens` tells that it begins the whole
  // text or follows a special token. kBadInput when the vocabulary has no tokens for it, or it is too long.
  virtual Status encode(std::string_view text, bool opens, std::vector<int32_t>& ids) const = 0;

  // The bytes that the text of a normal token stands for.
  virtual std::string bytes_of(std::string_view token_text) const = 0;

  // Whether encode() puts a space before text that opens.
  virtual bool adds_space() const = 0;
};

struct EncoderParts {
  const gguf::Model& model;
  std::shared_ptr<const Vocabulary> vocabulary;  // types are final
  const TokenRoles& roles;
};

struct EncoderKind {
  std::string_view name;  // value of tokenizer.ggml.model
  // What files of this kind mean where a key is missing; adds to the warnings what a person should know.
  Result<RoleDefaults> (*defaults)(const gguf::Model& model, std::vector<std::string>& warnings);
  Result<std::unique_ptr<const FragmentEncoder>> (*make)(const EncoderParts& parts);
};

// kUnsupported names file and kind; kBadInput when the file has none.
Result<const EncoderKind*> find_encoder_kind(const gguf::Model& model);

// Byte-level BPE, bpe_encoder.cpp.
Result<RoleDefaults> bpe_defaults(const gguf::Model& model, std::vector<std::string>& warnings);
Result<std::unique_ptr<const FragmentEncoder>> make_bpe_encoder(const EncoderParts& parts);
// SentencePiece-style, spm_encoder.cpp.
Result<RoleDefaults> spm_defaults(const gguf::Model& model, std::vector<std::string>& warnings);
Result<std::unique_ptr<const FragmentEncoder>> make_spm_encoder(const EncoderParts& parts);

}  // namespace strata::text
