// Writes the vocabulary of a tokenizer.json as the model file that a converter makes of it.
#pragma once

#include <memory>
#include <string>

#include "gguf/gguf.h"

namespace strata::text::test {

struct VocabularyForm {
  std::string model;              // tokenizer.ggml.model
  std::string pre = {};           // tokenizer.ggml.pre, of byte-level BPE
  size_t n_tokens = 0;            // rows of the model's embedding: what the tokenizer leaves out is padding
  bool add_space_prefix = false;  // of SentencePiece-style vocabularies
};

// The model, written to `path` and opened; nullptr after failing the running test.
std::unique_ptr<gguf::Model> write_vocabulary(const std::string& tokenizer_json, const VocabularyForm& form,
                                              const std::string& path);

}  // namespace strata::text::test
