#include "text/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace strata::text {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double number(float logit) { return std::isnan(logit) ? -kInfinity : static_cast<double>(logit); }

// exp(logit - max), right for infinite ones too.
double weight(double logit, double max) { return logit == max ? 1 : std::exp(logit - max); }

// Keeps the best n of all that are added, as a heap whose front is the worst of them.
class Best {
 public:
  Best(size_t n, std::vector<TokenLogprob>& heap) : n_(n), heap_(heap) { heap_.clear(); }

  void add(TokenLogprob token) {
    if (heap_.size() == n_) {
      if (n_ == 0 || !better(token, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), better);
      heap_.pop_back();
    }
    heap_.push_back(token);
    std::push_heap(heap_.begin(), heap_.end(), better);
  }
  void sort() { std::sort_heap(heap_.begin(), heap_.end(), better); }

 private:
  static bool better(const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  }

  size_t n_;
  std::vector<TokenLogprob>& heap_;
};

}  // namespace

void log_probabilities(std::span<const float> logits, int32_t chosen, int32_t n_top, Logprobs& out) {
  ASSERT(chosen >= 0);
  ASSERT(static_cast<size_t>(chosen) < logits.size());
  Best best(std::min(static_cast<size_t>(std::max(n_top, 0)), logits.size()), out.top);
  double max = -kInfinity;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double logit = number(logits[i]);
    max = std::max(max, logit);
    best.add({static_cast<int32_t>(i), static_cast<float>(logit)});
  }
  best.sort();
  double total = 0;
  for (const float logit : logits) total += weight(number(logit), max);
  const double log_total = std::log(total);
  const auto logprob = [&](float logit) {
    if (max == -kInfinity) return -std::numeric_limits<float>::infinity();
    const double value = number(logit);
    return static_cast<float>((value == max ? 0 : value - max) - log_total);
  };
  out.chosen = {chosen, logprob(logits[static_cast<size_t>(chosen)])};
  for (TokenLogprob& token : out.top) token.logprob = logprob(token.logprob);
}

}  // namespace strata::text
