// Finds special tokens in raw text, before any tokenisation.
//
// The rule: candidates are tried longest text first (equal lengths: lowest id first); each takes, from left to right,
// every place where its text stands in what earlier candidates have left. SpecialTokens gives the same fragments in
// time that depends on the places found, not on the number of candidates.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace strata::text {

inline constexpr size_t kMaxSpecialBytes = 1024;

// A token, or (token == kNoToken) text that is not empty.
struct Fragment {
  int32_t token;
  std::string_view text;
};

// The candidates of one kind of search. Immutable; any thread. Views the vocabulary's texts, which must outlive it.
class SpecialTokens {
 public:
  // Candidates are the user-defined tokens and, with `parse_special`, control and unknown tokens. kUnsupported names a
  // candidate of more than kMaxSpecialBytes.
  static Result<SpecialTokens> create(const Vocabulary& vocabulary, bool parse_special);

  // Fragments that together make up `text` (at most 4 GiB - 1), in order.
  std::vector<Fragment> split(std::string_view text) const;

 private:
  struct Candidate {
    std::string_view text;
    int32_t id;
    uint32_t order;   // of trying
    int32_t shorter;  // the longest other candidate that this one begins with, or -1
  };
  struct Hit {
    uint32_t order;
    uint32_t position;
    int32_t candidate;
  };
  struct Place {
    uint32_t position;
    int32_t candidate;
  };
  SpecialTokens() = default;
  int32_t longest_at(std::string_view rest) const;
  std::vector<Hit> longest_hits(std::string_view text) const;
  std::vector<Place> places(std::string_view text) const;

  std::vector<Candidate> candidates_;             // sorted by text
  std::array<uint32_t, 257> first_of_byte_ = {};  // candidates that begin with byte b: [b], to before [b + 1]
};

}  // namespace strata::text
