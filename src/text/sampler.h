// Picks the next token from logits: truncation stages in a fixed chain, temperature, then a draw.
//
//   top_k -> top_p -> min_p -> temperature -> distribution
//
// Temperature comes last, so the truncation works on untempered probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace strata::text {

struct SamplerParams {
  float temp = 0.8f;    // logits are divided by it; <= 0 takes the most probable token
  int32_t top_k = 40;   // candidates kept; <= 0 keeps all
  float top_p = 0.95f;  // the fewest most probable candidates that together reach it; >= 1 keeps all
  float min_p = 0.05f;  // candidates at least this share as probable as the best; <= 0 keeps all
  uint64_t seed = 0;
};

struct Candidate {
  int32_t id;
  float logit;  // never NaN
};

// What the stages work on: the candidates left, in an order of which the first n_sorted() are known to be the most
// probable ones, descending (equal logits: lower id first). Never empty.
class Candidates {
 public:
  explicit Candidates(int32_t n_vocab);

  // All tokens, ascending by id; a NaN logit counts as -infinity. logits: [n_vocab].
  void reset(std::span<const float> logits);
  std::span<Candidate> items() { return std::span(items_).first(n_items_); }
  size_t size() const { return n_items_; }
  size_t n_sorted() const { return n_sorted_; }
  float max_logit() const { return max_logit_; }
  // The most probable token, the lowest id among equals.
  int32_t best_id() const { return best_id_; }
  // exp(logit - max): the probability of a candidate but for a common factor.
  double weight(const Candidate& candidate) const;

  // Brings the n most probable to the front, in order.
  void sort_first(size_t n);
  // Drops all but the first n >= 1.
  void keep_first(size_t n);
  // Drops candidates below `logit`, keeping the order. Some candidate must reach it.
  void keep_from_logit(float logit);
  // Replaces each logit by (logit - max) / temp.
  void divide_by(float temp);

 private:
  std::vector<Candidate> items_;
  size_t n_items_ = 0;
  size_t n_sorted_ = 0;
  float max_logit_ = 0;
  int32_t best_id_ = 0;
};

// One per sequence; not for several threads at once. Memory is allocated when it is made, none per token.
class Sampler {
 public:
  // kBadInput names a parameter that is not a number. n_vocab >= 1.
  static Result<Sampler> create(const SamplerParams& params, int32_t n_vocab);

  // The next token for logits[n_vocab]. The same seed and logits give the same tokens. kInternal when no token can be
  // picked because every logit is NaN or -infinity.
  Result<int32_t> sample(std::span<const float> logits);

 private:
  Sampler(const SamplerParams& params, int32_t n_vocab);
  int32_t draw();

  SamplerParams params_;
  Random random_;
  Candidates candidates_;
};

}  // namespace strata::text
