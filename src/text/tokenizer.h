// Text to token ids and back, with the vocabulary that a model file carries: byte-level BPE
// (tokenizer.ggml.model = "gpt2") or SentencePiece-style pieces ("llama").
//
// Text is raw bytes, supposed to be UTF-8; what is not becomes U+FFFD, one per invalid byte. It is not normalised:
// composed and decomposed letters are different text, and decode() gives back what encode() was given.
//
// SentencePiece-style vocabularies write spaces as U+2581, so that character comes back as a space. Most of them want
// a space before text that begins the whole or follows a special token (tokenizer.ggml.add_space_prefix): encode() puts
// it there, and decode() takes one away in the same places. Text that is encoded in pieces has to say where it goes on,
// see EncodeOptions::opens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace strata::text {

struct EncodeOptions {
  // Whether texts of control tokens in the input become those tokens. User-defined tokens always do. Leave it off for
  // text of users, or they write control tokens.
  bool parse_special = false;
  // Puts the token for the beginning of a text in front, if the model has one. Pass Tokenizer::add_bos() for what the
  // model was made for.
  bool add_bos = false;
  // Whether the text begins the whole or follows a special token. Pass false for a piece of a text that follows other
  // text: SentencePiece-style vocabularies put no space in front of it.
  bool opens = true;
};

// Immutable after load; any thread. Keeps nothing of the model file.
class Tokenizer {
 public:
  // kUnsupported for other kinds of tokenizers; kBadInput names file, key and index of what is wrong with the file.
  static Result<std::unique_ptr<Tokenizer>> load(const gguf::Model& model);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  int32_t vocab_size() const;
  // kBadInput for text of 4 GiB and more (with SentencePiece-style vocabularies, 64 MiB between special tokens), and
  // when the vocabulary has no token for one of its bytes.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const;

  // Bytes that a token stands for; not whole characters, always. Control and unknown tokens are empty unless
  // `render_special`; unused tokens and ids outside the vocabulary are empty.
  std::string piece(int32_t id, bool render_special) const;
  // The pieces one after the other, up to the spaces that encode() puts before text.
  std::string decode(std::span<const int32_t> ids, bool render_special = false) const;

  // kNoToken where the model has none.
  int32_t bos() const;
  int32_t eos() const;
  int32_t eot() const;
  // Whether the model expects bos in front of a prompt.
  bool add_bos() const;
  // Whether sampling this token ends an answer. False for ids outside the vocabulary.
  bool is_end_of_generation(int32_t id) const;
  // kUnused for ids outside the vocabulary.
  TokenType token_type(int32_t id) const;

  // What a person should know about this vocabulary, one line each; also written to the log by load().
  const std::vector<std::string>& warnings() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace strata::text
