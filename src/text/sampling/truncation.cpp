// The stages that only drop candidates by their probability.
#include <algorithm>
#include <cmath>

#include "text/sampling/stage.h"

namespace strata::text {
namespace {

// Sorting goes in growing steps: a few hundred of a large vocabulary usually hold what is wanted.
constexpr size_t kFirstStep = 256;
size_t next_step(size_t n) { return std::max(kFirstStep, 4 * n); }

class TopK : public Stage {
 public:
  explicit TopK(size_t k) : k_(k) {}
  void apply(Candidates& candidates) override {
    candidates.sort_first(k_);
    candidates.keep_first(k_);
  }

 private:
  size_t k_;
};

class TopP : public Stage {
 public:
  TopP(double p, size_t min_keep) : p_(p), min_keep_(min_keep) {}
  void apply(Candidates& candidates) override {
    const double wanted = p_ * candidates.total_weight();
    double sum = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (i == candidates.n_sorted()) candidates.sort_first(next_step(i));
      sum += candidates.weight(candidates.items()[i]);
      if (sum >= wanted && i + 1 >= min_keep_) {
        candidates.keep_first(i + 1);
        return;
      }
    }
  }

 private:
  double p_;
  size_t min_keep_;
};

class MinP : public Stage {
 public:
  MinP(double p, size_t min_keep) : margin_(std::min(0.0, std::log(p))), min_keep_(min_keep) {}
  void apply(Candidates& candidates) override {
    if (min_keep_ > 1) {
      const auto stays = [&](const Candidate& candidate) {
        return candidate.logit == candidates.max_logit() ||
               static_cast<double>(candidate.logit) - static_cast<double>(candidates.max_logit()) >= margin_;
      };
      const auto items = candidates.items();
      if (static_cast<size_t>(std::count_if(items.begin(), items.end(), stays)) < min_keep_) {
        candidates.sort_first(min_keep_);
        candidates.keep_first(min_keep_);
        return;
      }
    }
    candidates.keep_within(margin_);
  }

 private:
  double margin_;
  size_t min_keep_;
};

// Candidates whose surprise -ln p is nearest to the entropy H come first. With p = exp(l - max) / Z the distance
// |-ln p - H| is |(l - max) - (ln Z - H)|, so one constant does for all.
class Typical : public Stage {
 public:
  Typical(double p, size_t min_keep) : p_(p), min_keep_(min_keep) {}
  void apply(Candidates& candidates) override {
    const double total = candidates.total_weight();
    const double center = std::log(total) - candidates.entropy();
    const float max = candidates.max_logit();
    const auto distance = [&](const Candidate& c) {
      const double below = c.logit == max ? 0 : static_cast<double>(c.logit) - static_cast<double>(max);
      return std::abs(below - center);
    };
    const auto more_typical = [&](const Candidate& a, const Candidate& b) {
      const double distance_a = distance(a), distance_b = distance(b);
      return distance_a != distance_b ? distance_a < distance_b : more_probable(a, b);
    };
    const std::span<Candidate> items = candidates.items();
    size_t n_sorted = 0, n_kept = items.size();
    double sum = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i == n_sorted) {
        n_sorted = std::min(next_step(i), items.size());
        const auto begin = items.begin() + static_cast<ptrdiff_t>(i);
        const auto middle = items.begin() + static_cast<ptrdiff_t>(n_sorted);
        if (middle != items.end()) std::nth_element(begin, middle, items.end(), more_typical);
        std::sort(begin, middle, more_typical);
      }
      sum += candidates.weight(items[i]) / total;
      if (sum > p_ && i + 1 >= min_keep_) {
        n_kept = i + 1;
        break;
      }
    }
    candidates.changed(n_kept);
  }

 private:
  double p_;
  size_t min_keep_;
};

class TopNSigma : public Stage {
 public:
  explicit TopNSigma(double n) : n_(n) {}
  void apply(Candidates& candidates) override {
    // Two passes: one would lose the digits of a small deviation from a large mean.
    double sum = 0, sum_squares = 0;
    size_t n = 0;
    for (const Candidate& candidate : candidates.items()) {
      if (!std::isfinite(candidate.logit)) continue;
      sum += static_cast<double>(candidate.logit);
      ++n;
    }
    if (n == 0) return;
    const double mean = sum / static_cast<double>(n);
    for (const Candidate& candidate : candidates.items()) {
      if (!std::isfinite(candidate.logit)) continue;
      const double difference = static_cast<double>(candidate.logit) - mean;
      sum_squares += difference * difference;
    }
    candidates.keep_within(-n_ * std::sqrt(sum_squares / static_cast<double>(n)));
  }

 private:
  double n_;
};

}  // namespace

std::unique_ptr<Stage> make_top_k(const SamplerParams& params, int32_t) {
  return std::make_unique<TopK>(static_cast<size_t>(params.top_k));
}
std::unique_ptr<Stage> make_top_p(const SamplerParams& params, int32_t) {
  return std::make_unique<TopP>(static_cast<double>(params.top_p), static_cast<size_t>(params.min_keep));
}
std::unique_ptr<Stage> make_min_p(const SamplerParams& params, int32_t) {
  return std::make_unique<MinP>(static_cast<double>(params.min_p), static_cast<size_t>(params.min_keep));
}
std::unique_ptr<Stage> make_typical(const SamplerParams& params, int32_t) {
  return std::make_unique<Typical>(static_cast<double>(params.typical_p), static_cast<size_t>(params.min_keep));
}
std::unique_ptr<Stage> make_top_n_sigma(const SamplerParams& params, int32_t) {
  return std::make_unique<TopNSigma>(static_cast<double>(params.top_n_sigma));
}

}  // namespace strata::text
