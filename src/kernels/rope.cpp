#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/assert.h"
#include "kernels/kernels.h"

namespace strata::kernels {
namespace {

// The (real) pair index whose frequency makes `turns` full turns within the original context.
double pair_of_turns(const RopeScaling& s, double turns) {
  return s.n_rot * std::log(s.original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(s.base));
}

struct YarnRamp {
  double low, high;

  explicit YarnRamp(const RopeScaling& s) : low(pair_of_turns(s, s.beta_fast)), high(pair_of_turns(s, s.beta_slow)) {
    if (s.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(0.0, low);
    high = std::min(s.n_rot - 1.0, high);
  }
  // 0 where the frequency stays, 1 where it is stretched.
  double stretched(int pair) const { return std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0); }
};

float magnitude(const RopeScaling& s) {
  double value = s.attn_factor;
  const bool grows = s.type == RopeScalingType::kYarn && s.factor > 1 && s.ext_factor != 0;
  if (grows && !s.has_log_multiplier) value *= 1 + 0.1 * std::log(s.factor);
  return static_cast<float>(value);
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeScaling& s) {
  ASSERT(s.n_rot > 0 && s.n_rot % 2 == 0);
  const int n_pairs = s.n_rot / 2;
  ASSERT(s.divisors.empty() || s.divisors.size() == static_cast<size_t>(n_pairs));
  RopeFrequencies out;
  out.magnitude = magnitude(s);
  out.inv_freq.resize(static_cast<size_t>(n_pairs));
  for (int p = 0; p < n_pairs; p++) {
    double freq = std::pow(s.base, -2.0 * p / s.n_rot);
    if (s.type == RopeScalingType::kLinear) freq /= s.factor;
    if (s.type == RopeScalingType::kYarn) {
      const double kept = (1 - YarnRamp(s).stretched(p)) * s.ext_factor;
      freq = freq / s.factor * (1 - kept) + freq * kept;
    }
    if (!s.divisors.empty()) freq /= s.divisors[static_cast<size_t>(p)];
    out.inv_freq[static_cast<size_t>(p)] = static_cast<float>(freq);
  }
  return out;
}

void rope_angles(int64_t position, const float* inv_freq, int n_pairs, float magnitude, float* cos, float* sin) {
  for (int p = 0; p < n_pairs; p++) {
    const double angle = static_cast<double>(position) * static_cast<double>(inv_freq[p]);
    cos[p] = static_cast<float>(std::cos(angle) * magnitude);
    sin[p] = static_cast<float>(std::sin(angle) * magnitude);
  }
}

}  // namespace strata::kernels
