#include "text/sampler_stages.h"

#include <algorithm>
#include <cmath>

namespace strata::text {

namespace {

void apply_top_k(const SamplerParams& params, Candidates& candidates) {
  if (params.top_k <= 0) return;
  const size_t k = std::min(static_cast<size_t>(params.top_k), candidates.size());
  candidates.sort_first(k);
  candidates.keep_first(k);
}

// Candidates are sorted in growing steps: a few hundred of a large vocabulary usually reach top_p.
void apply_top_p(const SamplerParams& params, Candidates& candidates) {
  if (params.top_p >= 1) return;
  double total = 0;
  for (const Candidate& candidate : candidates.items()) total += candidates.weight(candidate);
  const double wanted = static_cast<double>(params.top_p) * total;
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == candidates.n_sorted()) candidates.sort_first(std::max<size_t>(256, 4 * i));
    sum += candidates.weight(candidates.items()[i]);
    if (sum >= wanted) {
      candidates.keep_first(i + 1);
      return;
    }
  }
}

void apply_min_p(const SamplerParams& params, Candidates& candidates) {
  if (params.min_p <= 0) return;
  candidates.keep_from_logit(candidates.max_logit() + std::min(0.0f, std::log(params.min_p)));
}

void apply_temperature(const SamplerParams& params, Candidates& candidates) { candidates.divide_by(params.temp); }

constexpr SamplerStage kChain[] = {
    {"top_k", apply_top_k},
    {"top_p", apply_top_p},
    {"min_p", apply_min_p},
    {"temperature", apply_temperature},
};

}  // namespace

std::span<const SamplerStage> sampler_chain() { return kChain; }

}  // namespace strata::text
