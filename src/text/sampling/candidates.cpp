#include "text/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace strata::text {

Candidates::Candidates(int32_t n_vocab) : items_(static_cast<size_t>(n_vocab)) {}

void Candidates::reset(std::span<const float> logits) {
  ASSERT(logits.size() == items_.size());
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    items_[i] = {static_cast<int32_t>(i), std::isnan(logits[i]) ? kMinusInfinity : logits[i]};
  }
  changed(items_.size());
}

void Candidates::changed(size_t n) {
  ASSERT(n >= 1);
  ASSERT(n <= items_.size());
  n_items_ = n;
  n_sorted_ = 0;
  best_ = items_[0];
  for (const Candidate& candidate : items()) {
    if (candidate.logit >= best_.logit && more_probable(candidate, best_)) best_ = candidate;
  }
}

double Candidates::weight(const Candidate& candidate) const {
  // Equality first: the difference of two infinities is no number.
  if (candidate.logit == best_.logit) return 1;
  return std::exp(static_cast<double>(candidate.logit) - static_cast<double>(best_.logit));
}

double Candidates::total_weight() const {
  double total = 0;
  for (const Candidate& candidate : items()) total += weight(candidate);
  return total;
}

// With w = exp(l - max) and Z the sum of w: H = ln Z - sum w (l - max) / Z.
double Candidates::entropy() const {
  double total = 0, sum = 0;
  for (const Candidate& candidate : items()) {
    const double w = weight(candidate);
    total += w;
    if (w > 0 && w < 1) sum += w * (static_cast<double>(candidate.logit) - static_cast<double>(best_.logit));
  }
  return std::log(total) - sum / total;
}

void Candidates::sort_first(size_t n) {
  n = std::min(n, n_items_);
  if (n <= n_sorted_) return;
  Candidate* const begin = items_.data() + n_sorted_;
  Candidate* const middle = items_.data() + n;
  Candidate* const end = items_.data() + n_items_;
  if (middle != end) std::nth_element(begin, middle, end, more_probable);
  std::sort(begin, middle, more_probable);
  n_sorted_ = n;
}

void Candidates::keep_first(size_t n) {
  ASSERT(n >= 1);
  n_items_ = std::min(n, n_items_);
  n_sorted_ = std::min(n_sorted_, n_items_);
}

void Candidates::drop_sorted(size_t n) {
  ASSERT(n < n_sorted_);
  std::copy(items_.begin() + static_cast<ptrdiff_t>(n), items_.begin() + static_cast<ptrdiff_t>(n_items_),
            items_.begin());
  n_items_ -= n;
  n_sorted_ -= n;
  best_ = items_[0];
}

void Candidates::keep_within(double margin) {
  Candidate* const begin = items_.data();
  const float max = best_.logit;
  const auto dropped = [max, margin](const Candidate& candidate) {
    return candidate.logit != max && static_cast<double>(candidate.logit) - static_cast<double>(max) < margin;
  };
  // Sorted ones that stay are a prefix, and stay in front.
  n_sorted_ = static_cast<size_t>(std::find_if(begin, begin + n_sorted_, dropped) - begin);
  n_items_ = static_cast<size_t>(std::remove_if(begin, begin + n_items_, dropped) - begin);
}

void Candidates::divide_by(double temp) {
  const float max = best_.logit;
  for (Candidate& candidate : items()) {
    const double difference = static_cast<double>(candidate.logit) - static_cast<double>(max);
    candidate.logit = candidate.logit == max ? 0 : static_cast<float>(difference / temp);
  }
  best_.logit = 0;
}

}  // namespace strata::text
