// Texts at which a repetition ends for DRY ("don't repeat yourself"): what comes before them never counts as repeated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace strata::text {

inline constexpr size_t kMaxDryBreakers = 64;
inline constexpr size_t kMaxDryBreakerBytes = 40;
inline constexpr size_t kMaxDryTailTokens = 20;

// "\n", ":", "\"" and "*".
std::vector<std::string> default_dry_breakers();

// The tokens in which the texts of breakers can occur. Immutable; any thread. Making it walks over the vocabulary.
class DryBreakers {
 public:
  // kBadInput for more than kMaxDryBreakers and for a text that is empty or longer than kMaxDryBreakerBytes.
  static Result<std::shared_ptr<const DryBreakers>> create(const Tokenizer& tokenizer,
                                                           std::span<const std::string> texts);
  // From tokens, without a vocabulary: each sequence is a breaker; the empty one is ignored.
  static std::shared_ptr<const DryBreakers> of_tokens(std::span<const std::vector<int32_t>> sequences);

  // The token sequences that make a breaker when they follow `head`; an empty one: head alone is a breaker. None where
  // head begins no breaker.
  std::span<const std::vector<int32_t>> tails(int32_t head) const;
  // Whether the token alone is a breaker.
  bool is_single(int32_t id) const;

 private:
  DryBreakers() = default;
  void add(int32_t head, std::vector<int32_t> tail);

  std::unordered_map<int32_t, std::vector<std::vector<int32_t>>> tails_;  // by head
};

}  // namespace strata::text
