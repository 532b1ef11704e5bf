// Exclude top choices: now and then, of the candidates that are probable enough, all but the least probable one go.
#include "text/sampling/stage.h"
#include "text/sampling/uniform.h"

namespace strata::text {
namespace {

// Apart from the numbers that pick tokens: with the same ones, whether the stage fires would depend on the pick.
constexpr uint32_t kSeedDifference = 0x9e3779b9;

class Xtc : public Stage {
 public:
  explicit Xtc(const SamplerParams& params)
      : probability_(static_cast<double>(params.xtc_probability)),
        threshold_(static_cast<double>(params.xtc_threshold)),
        min_keep_(static_cast<size_t>(params.min_keep)),
        uniform_(params.seed ^ kSeedDifference) {}

  void apply(Candidates& candidates) override {
    if (candidates.size() < 2 || uniform_.next() > probability_) return;
    // All of them, whether or not any goes: what is drawn depends on the order.
    candidates.sort_first(candidates.size());
    const double wanted = threshold_ * candidates.total_weight();
    const auto above = [&](const Candidate& candidate) {
      const double weight = candidates.weight(candidate);
      return weight >= wanted && weight > 0;  // whatever the threshold, the one that stays must be possible
    };
    size_t n_above = 0;
    while (n_above < candidates.size() && above(candidates.items()[n_above])) ++n_above;
    if (n_above < 2 || candidates.size() - (n_above - 1) < min_keep_) return;
    candidates.drop_sorted(n_above - 1);
  }

  void reset() override { uniform_.reset(); }

 private:
  double probability_;
  double threshold_;
  size_t min_keep_;
  Uniform uniform_;
};

}  // namespace

std::unique_ptr<Stage> make_xtc(const SamplerParams& params, int32_t) { return std::make_unique<Xtc>(params); }

}  // namespace strata::text
