// Temperature, fixed or by entropy: the less certain the candidates, the nearer to temp + range.
#include <algorithm>
#include <cmath>

#include "text/sampling/stage.h"

namespace strata::text {
namespace {

class Temperature : public Stage {
 public:
  explicit Temperature(const SamplerParams& params)
      : temp_(static_cast<double>(params.temp)),
        range_(static_cast<double>(params.dynatemp_range)),
        exponent_(static_cast<double>(params.dynatemp_exponent)) {}

  void apply(Candidates& candidates) override {
    const double temp = temp_ > 0 && range_ > 0 ? dynamic_temp(candidates) : temp_;
    if (temp > 0) {
      candidates.divide_by(temp);
      return;
    }
    candidates.sort_first(1);
    candidates.keep_first(1);
  }

 private:
  double dynamic_temp(const Candidates& candidates) const {
    if (candidates.size() == 1) return temp_;
    const double most = std::log(static_cast<double>(candidates.size()));
    const double share = std::clamp(candidates.entropy() / most, 0.0, 1.0);
    const double low = std::max(0.0, temp_ - range_), high = temp_ + range_;
    // A negative exponent must not lead out of the range either.
    return low + (high - low) * std::min(1.0, std::pow(share, exponent_));
  }

  double temp_;
  double range_;
  double exponent_;
};

}  // namespace

std::unique_ptr<Stage> make_temperature(const SamplerParams& params, int32_t) {
  return std::make_unique<Temperature>(params);
}

}  // namespace strata::text
