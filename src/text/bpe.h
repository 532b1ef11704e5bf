// Byte-pair encoding: a word begins as its bytes; the adjacent pair with the lowest rank is merged (among equal ranks
// the leftmost) until no pair has a rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace strata::text {

inline constexpr uint64_t kMaxMerges = uint64_t{1} << 21;

// Memory of encode_word that is used again from word to word; one to a thread.
struct BpeScratch {
  struct Symbol {
    int32_t id;      // kGone once merged into its left neighbour
    uint32_t begin;  // first byte in the word
    uint32_t prev, next;
  };
  struct Pair {
    uint32_t rank;
    uint32_t left;  // index of the left symbol
    int32_t left_id, right_id;
    int32_t merged_id;
  };
  std::vector<Symbol> symbols;
  std::vector<Pair> heap;
};

// Immutable; any thread.
class BpeMerges {
 public:
  // Reads tokenizer.ggml.merges; types of the vocabulary must be final. kBadInput names file, key and index.
  static Result<BpeMerges> load(const gguf::Model& model, const Vocabulary& vocabulary);

  // Appends the tokens of a word (raw bytes, at most 4 GiB - 1) in O(n log n). Control, unknown and unused tokens are
  // never made. kBadInput when the vocabulary has no token for a byte.
  Status encode_word(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  // A symbol is a text that merging can make: the id of the token with this text, or, where there is none, a number
  // from the vocabulary's size on.
  struct Merge {
    int32_t left, right;
    uint32_t rank;
    int32_t merged;
  };
  class Loader;
  BpeMerges() = default;
  const Merge* find(int32_t left, int32_t right) const;
  void push_pair(BpeScratch& scratch, uint32_t left) const;
  void merge_all(BpeScratch& scratch) const;
  int32_t token_of(int32_t symbol) const;
  Status append_bytes(std::string_view bytes, std::vector<int32_t>& ids) const;

  std::vector<Merge> merges_;            // sorted by left, right
  std::vector<uint32_t> first_of_left_;  // merges of left symbol s: [s], to before [s + 1]
  std::array<int32_t, 256> byte_symbols_ = {};
  std::vector<bool> producible_;         // by token id
};

}  // namespace strata::text
