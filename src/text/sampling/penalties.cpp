// Repetition, frequency and presence penalties over a window of accepted tokens.
#include <algorithm>
#include <limits>

#include "text/sampling/stage.h"
#include "text/sampling/token_window.h"

namespace strata::text {
namespace {

class Penalties : public Stage {
 public:
  Penalties(const SamplerParams& params, int32_t n_vocab)
      : repeat_(params.repeat_penalty),
        frequency_(static_cast<double>(params.frequency_penalty)),
        presence_(static_cast<double>(params.presence_penalty)),
        window_(params.repeat_last_n),
        counts_(static_cast<size_t>(n_vocab)) {}

  void apply(Candidates& candidates) override {
    if (window_.size() == 0) return;
    for (Candidate& candidate : candidates.items()) {
      const int32_t count = counts_[static_cast<size_t>(candidate.id)];
      if (count == 0) continue;
      float& logit = candidate.logit;
      logit = logit <= 0 ? logit * repeat_ : logit / repeat_;
      logit -= subtracted(count);
    }
    candidates.changed(candidates.size());
  }

  void accept(int32_t id) override {
    if (const auto gone = window_.push(id)) add(*gone, -1);
    add(id, 1);
  }

  void reset() override {
    for (size_t age = 0; age < window_.size(); ++age) add(window_.back(age), -1);
    window_.clear();
  }

 private:
  // Finite, so that an infinite logit stays a number.
  float subtracted(int32_t count) const {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(static_cast<double>(count) * frequency_ + presence_, -kMost, kMost));
  }

  void add(int32_t id, int32_t n) {
    if (id >= 0 && static_cast<size_t>(id) < counts_.size()) counts_[static_cast<size_t>(id)] += n;
  }

  float repeat_;
  double frequency_;
  double presence_;
  TokenWindow window_;
  std::vector<int32_t> counts_;  // by id: occurrences in the window
};

}  // namespace

std::unique_ptr<Stage> make_penalties(const SamplerParams& params, int32_t n_vocab) {
  return std::make_unique<Penalties>(params, n_vocab);
}

}  // namespace strata::text
