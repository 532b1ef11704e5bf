// What the sampling stages work on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata::text {

struct Candidate {
  int32_t id;
  float logit;  // never NaN
};

// Whether a comes before b where candidates are in order of probability: the lower id among equals.
inline bool more_probable(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The candidates left, in an order of which the first n_sorted() are known to be the most probable ones, descending.
// Never empty. Memory is allocated when it is made.
class Candidates {
 public:
  // n_vocab >= 1.
  explicit Candidates(int32_t n_vocab);

  // All tokens, ascending by id; a NaN logit counts as -infinity. logits: [n_vocab].
  void reset(std::span<const float> logits);
  std::span<Candidate> items() { return std::span(items_).first(n_items_); }
  std::span<const Candidate> items() const { return std::span(items_).first(n_items_); }
  size_t size() const { return n_items_; }
  size_t n_sorted() const { return n_sorted_; }
  float max_logit() const { return best_.logit; }
  // The most probable token, the lowest id among equals.
  int32_t best_id() const { return best_.id; }
  // exp(logit - max): the probability of a candidate but for the common factor 1 / total_weight().
  double weight(const Candidate& candidate) const;
  double total_weight() const;
  // -sum p ln p over the candidates, nats.
  double entropy() const;

  // Brings the n most probable to the front, in order.
  void sort_first(size_t n);
  // Drops all but the first n >= 1, which must hold the best.
  void keep_first(size_t n);
  // Drops the first n of at least n + 1 sorted ones.
  void drop_sorted(size_t n);
  // Drops candidates whose logit is below max_logit() + `margin` (<= 0), keeping the order.
  void keep_within(double margin);
  // Replaces each logit by (logit - max) / temp, temp > 0.
  void divide_by(double temp);
  // Must follow changes through items() of logits or order, or drops that may have hit the best. The first n >= 1 are
  // what is left.
  void changed(size_t n);

 private:
  std::vector<Candidate> items_;
  size_t n_items_ = 0;
  size_t n_sorted_ = 0;
  Candidate best_ = {};
};

}  // namespace strata::text
