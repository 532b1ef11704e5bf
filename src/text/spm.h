// SentencePiece-style segmentation: a text begins as its characters; the adjacent pair whose joined text is the token
// with the highest score (among equals the leftmost pair) is merged, until no pair is a token.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace strata::text {

// Immutable; any thread.
class SpmPieces {
 public:
  // Reads tokenizer.ggml.scores; types of the vocabulary must be final. `unknown` stands for characters without tokens,
  // kNoToken if there is none. kBadInput names file, key and index.
  static Result<SpmPieces> load(const gguf::Model& model, std::shared_ptr<const Vocabulary> vocabulary,
                                int32_t unknown);

  // Appends the tokens of `text` (valid UTF-8, at most 4 GiB - 1) in O(n log n). Made are normal and user-defined
  // tokens. An unused token is merged to and on from, but where it is left it falls apart into what it was merged
  // of. A character that is no token becomes the tokens of its bytes, or else `unknown`; kBadInput if there is neither.
  Status encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  class Run;
  SpmPieces() = default;
  Status load_scores(const gguf::Model& model);
  void find_bytes();
  int32_t mergeable(std::string_view text) const;
  Status append_character(std::string_view character, std::vector<int32_t>& ids) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<float> scores_;               // by token id; none is NaN
  std::array<int32_t, 256> byte_ids_ = {};  // kNoToken where missing
  int32_t unknown_ = kNoToken;
  size_t longest_ = 0;                      // bytes of the longest token that merges may make
};

}  // namespace strata::text
