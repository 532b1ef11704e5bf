#include "text/sampling/picker.h"

namespace strata::text {
namespace {

class Distribution : public Picker {
 public:
  int32_t pick(Candidates& candidates, Uniform& uniform) override {
    return candidates.items()[draw(candidates, uniform.next())].id;
  }
};

}  // namespace

size_t draw(const Candidates& candidates, double u) {
  const double wanted = u * candidates.total_weight();
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double weight = candidates.weight(candidates.items()[i]);
    if (weight == 0) continue;
    last = i;
    sum += weight;
    if (sum >= wanted) break;
  }
  return last;
}

std::unique_ptr<Picker> make_picker(const SamplerParams& params, int32_t n_vocab) {
  if (params.mirostat > 0) return make_mirostat(params, n_vocab);
  if (params.adaptive_target >= 0) return make_adaptive(params);
  return std::make_unique<Distribution>();
}

}  // namespace strata::text
