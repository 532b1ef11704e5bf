// Adaptive-p: prefers candidates whose probability is near a target, which moves against what recent picks had, so that
// their mean stays at the target that was asked for.
#include <algorithm>
#include <cmath>

#include "text/sampling/picker.h"

namespace strata::text {
namespace {

constexpr double kPeakLogit = 5;
constexpr double kSharpness = 10;
constexpr double kWidth = 0.3;  // of probability

class Adaptive : public Picker {
 public:
  explicit Adaptive(const SamplerParams& params)
      : target_(static_cast<double>(params.adaptive_target)), decay_(static_cast<double>(params.adaptive_decay)) {
    reset();
  }

  int32_t pick(Candidates& candidates, Uniform& uniform) override {
    const double total = candidates.total_weight();
    const double target = std::clamp(2 * target_ - weighted_sum_ / weight_, 0.0, 1.0);
    probabilities_.clear();
    const float max = candidates.max_logit();
    for (const Candidate& candidate : candidates.items()) {
      probabilities_.push_back(candidates.weight(candidate) / total);
    }
    const std::span<Candidate> items = candidates.items();
    for (size_t i = 0; i < items.size(); ++i) {
      // What was impossible stays so.
      if (std::isinf(items[i].logit) && items[i].logit != max) continue;
      const double distance = std::abs(probabilities_[i] - target) / kWidth;
      items[i].logit = static_cast<float>(kPeakLogit - kSharpness * distance * distance / (1 + distance));
    }
    candidates.changed(items.size());
    const size_t index = draw(candidates, uniform.next());
    picked_ = items[index].id;
    picked_probability_ = probabilities_[index];
    return picked_;
  }

  void accept(int32_t id) override {
    if (id != picked_) return;
    picked_ = kNothing;
    weighted_sum_ = picked_probability_ + decay_ * weighted_sum_;
    weight_ = 1 + decay_ * weight_;
  }

  // As after many picks of exactly the target: the first ones don't swing it.
  void reset() override {
    picked_ = kNothing;
    weight_ = 1 / (1 - decay_);
    weighted_sum_ = target_ * weight_;
  }

 private:
  static constexpr int32_t kNothing = -1;

  double target_;
  double decay_;
  double weighted_sum_ = 0;
  double weight_ = 0;
  int32_t picked_ = kNothing;
  double picked_probability_ = 0;
  std::vector<double> probabilities_;  // of the candidates, before they are changed
};

}  // namespace

std::unique_ptr<Picker> make_adaptive(const SamplerParams& params) { return std::make_unique<Adaptive>(params); }

}  // namespace strata::text
