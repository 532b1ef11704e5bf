// Mirostat (Basu et al., 2021): cuts the candidates so that the surprise of picks, in bits, stays near tau. mu is the
// surprise allowed at present; it starts at 2 tau and follows what was accepted.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "text/sampling/picker.h"

namespace strata::text {
namespace {

class Mirostat : public Picker {
 public:
  explicit Mirostat(const SamplerParams& params)
      : tau_(static_cast<double>(params.mirostat_tau)),
        eta_(static_cast<double>(params.mirostat_eta)),
        mu_(2 * tau_) {}

  int32_t pick(Candidates& candidates, Uniform& uniform) override {
    cut(candidates, mu_);
    const Candidate& picked = candidates.items()[draw(candidates, uniform.next())];
    picked_ = picked.id;
    surprise_ = std::log2(candidates.total_weight()) - std::log2(candidates.weight(picked));
    return picked_;
  }

  void accept(int32_t id) override {
    if (id != picked_) return;
    picked_ = kNothing;
    mu_ -= eta_ * (surprise_ - tau_);
  }

  void reset() override {
    mu_ = 2 * tau_;
    picked_ = kNothing;
  }

 private:
  static constexpr int32_t kNothing = -1;

  // Leaves the candidates sorted, and at least one.
  virtual void cut(Candidates& candidates, double mu) = 0;

  double tau_;
  double eta_;
  double mu_;
  int32_t picked_ = kNothing;
  double surprise_ = 0;
};

// Version 1 estimates the exponent s of the distribution, taken as Zipf's law, from the most probable candidates, and
// from it how many to keep.
class Mirostat1 : public Mirostat {
 public:
  Mirostat1(const SamplerParams& params, int32_t n_vocab) : Mirostat(params), n_vocab_(n_vocab) {}

 private:
  static constexpr size_t kMostUsed = 100;

  void cut(Candidates& candidates, double mu) override {
    candidates.sort_first(kMostUsed);
    const double s = zipf_exponent(candidates);
    const double e = s - 1;
    // e / (1 - V^-e), which is 1 / ln V where e is 0.
    const double log_v = std::log(static_cast<double>(n_vocab_));
    const double factor = e == 0 ? 1 / log_v : e / -std::expm1(-e * log_v);
    const double k = std::pow(factor * std::exp2(mu), 1 / s);
    const double most = static_cast<double>(candidates.size());
    const size_t n = k >= 1 ? static_cast<size_t>(std::min(k, most)) : 1;  // 1 for NaN: nothing to estimate from
    candidates.sort_first(n);
    candidates.keep_first(n);
  }

  // Least squares of ln(p_i / p_(i+1)) against s * ln((i + 2) / (i + 1)), i from 0.
  static double zipf_exponent(const Candidates& candidates) {
    const std::span<const Candidate> items = candidates.items();
    double sum_tb = 0, sum_tt = 0;
    for (size_t i = 0; i + 1 < std::min(kMostUsed, items.size()); ++i) {
      const double p = candidates.weight(items[i]), next = candidates.weight(items[i + 1]);
      if (next == 0) break;  // and so is all that follows
      const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
      sum_tb += t * std::log(p / next);
      sum_tt += t * t;
    }
    return sum_tb / sum_tt;
  }

  int32_t n_vocab_;
};

// Version 2 keeps the candidates whose own surprise is at most mu.
class Mirostat2 : public Mirostat {
 public:
  using Mirostat::Mirostat;

 private:
  void cut(Candidates& candidates, double mu) override {
    // -log2 p <= mu, with p = exp(l - max) / total.
    const double margin = std::log(candidates.total_weight()) - mu * std::numbers::ln2;
    candidates.keep_within(margin);
    candidates.sort_first(candidates.size());
  }
};

}  // namespace

std::unique_ptr<Picker> make_mirostat(const SamplerParams& params, int32_t n_vocab) {
  if (params.mirostat == 1) return std::make_unique<Mirostat1>(params, n_vocab);
  return std::make_unique<Mirostat2>(params);
}

}  // namespace strata::text
