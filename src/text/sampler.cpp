#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "text/sampler_stages.h"

namespace strata::text {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool more_probable(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

}  // namespace

Candidates::Candidates(int32_t n_vocab) : items_(static_cast<size_t>(n_vocab)) {}

void Candidates::reset(std::span<const float> logits) {
  ASSERT(logits.size() == items_.size());
  n_items_ = items_.size();
  n_sorted_ = 0;
  max_logit_ = kMinusInfinity;
  best_id_ = 0;
  for (size_t i = 0; i < n_items_; ++i) {
    const float logit = std::isnan(logits[i]) ? kMinusInfinity : logits[i];
    items_[i] = {static_cast<int32_t>(i), logit};
    if (logit > max_logit_) {
      max_logit_ = logit;
      best_id_ = static_cast<int32_t>(i);
    }
  }
}

double Candidates::weight(const Candidate& candidate) const {
  // Equality first: the difference of two infinities is no number.
  if (candidate.logit == max_logit_) return 1;
  return std::exp(static_cast<double>(candidate.logit) - static_cast<double>(max_logit_));
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

void Candidates::keep_from_logit(float logit) {
  Candidate* const begin = items_.data();
  const auto dropped = [logit](const Candidate& candidate) { return candidate.logit < logit; };
  // Sorted ones that stay are a prefix, and stay in front.
  n_sorted_ = static_cast<size_t>(std::find_if(begin, begin + n_sorted_, dropped) - begin);
  n_items_ = static_cast<size_t>(std::remove_if(begin, begin + n_items_, dropped) - begin);
  ASSERT(n_items_ >= 1);
}

void Candidates::divide_by(float temp) {
  for (Candidate& candidate : items()) {
    const double difference = static_cast<double>(candidate.logit) - static_cast<double>(max_logit_);
    candidate.logit = candidate.logit == max_logit_ ? 0 : static_cast<float>(difference / static_cast<double>(temp));
  }
  max_logit_ = 0;
}

Sampler::Sampler(const SamplerParams& params, int32_t n_vocab)
    : params_(params), random_(params.seed), candidates_(n_vocab) {}

Result<Sampler> Sampler::create(const SamplerParams& params, int32_t n_vocab) {
  ASSERT(n_vocab >= 1);
  const struct { const char* name; float value; } numbers[] = {
      {"temp", params.temp}, {"top_p", params.top_p}, {"min_p", params.min_p}};
  for (const auto& [name, value] : numbers) {
    if (!std::isfinite(value)) {
      return Error{ErrorCode::kBadInput,
                   format("sampling parameter {} is {}; it must be a finite number", name, value)};
    }
  }
  return Sampler(params, n_vocab);
}

Result<int32_t> Sampler::sample(std::span<const float> logits) {
  candidates_.reset(logits);
  if (candidates_.max_logit() == kMinusInfinity) {
    return Error{ErrorCode::kInternal, format("no token can be sampled: all {} logits are NaN or -inf", logits.size())};
  }
  // Every stage keeps the most probable token, so it needs none of them.
  if (params_.temp <= 0) return candidates_.best_id();
  for (const SamplerStage& stage : sampler_chain()) stage.apply(params_, candidates_);
  return draw();
}

// The first candidate at which the running sum of weights reaches a uniform share of the total.
int32_t Sampler::draw() {
  double total = 0;
  for (const Candidate& candidate : candidates_.items()) total += candidates_.weight(candidate);
  const double wanted = random_.uniform() * total;
  double sum = 0;
  int32_t last = candidates_.items().front().id;
  for (const Candidate& candidate : candidates_.items()) {
    const double weight = candidates_.weight(candidate);
    if (weight == 0) continue;
    last = candidate.id;
    sum += weight;
    if (sum >= wanted) break;
  }
  return last;
}

}  // namespace strata::text
