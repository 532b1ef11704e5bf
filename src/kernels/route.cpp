#include <cmath>
#include <limits>

#include "base/assert.h"
#include "kernels/kernels.h"

namespace strata::kernels {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr double kWeightSumMin = 6.103515625e-05;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// The exponents' common offset and their sum, over the n logits that `at` names. A NaN ends up in the sum.
struct Softmax {
  double maximum = kLowest;
  double total = 0;

  template <class At>
  static Softmax over(int n, const At& at) {
    Softmax s;
    for (int i = 0; i < n; i++) {
      if (at(i) > s.maximum) s.maximum = at(i);
    }
    for (int i = 0; i < n; i++) s.total += std::exp(at(i) - s.maximum);
    return s;
  }
  double of(double logit) const { return std::exp(logit - maximum) / total; }
};

// Inserts expert e into the `count` best so far, which are sorted by descending score. An equal score stays behind
// the one that is there already, so with ascending e ties go to the lower index.
int insert_best(const float* scores, int e, int32_t* ids, int count, int limit) {
  int at = count;
  while (at > 0 && scores[e] > scores[ids[at - 1]]) at--;
  if (at == limit) return count;
  const int kept = count < limit ? count : limit - 1;
  for (int i = kept; i > at; i--) ids[i] = ids[i - 1];
  ids[at] = e;
  return kept + 1;
}

// Sum of the two best scores of `size` experts; of the one where there is only one.
float group_score(const float* scores, int size) {
  float best = kLowest, second = kLowest;
  for (int i = 0; i < size; i++) {
    if (scores[i] > best) {
      second = best;
      best = scores[i];
    } else if (scores[i] > second) {
      second = scores[i];
    }
  }
  return size > 1 ? best + second : best;
}

// Lowers the scores of all experts outside the best groups. A group stays when fewer than n_groups_used others beat
// it, an equal one only with a lower index. group_scores: n_groups floats.
void mask_groups(const RouteParams& params, float* scores, float* group_scores) {
  const int size = params.n_experts / params.n_groups;
  for (int g = 0; g < params.n_groups; g++) group_scores[g] = group_score(scores + g * size, size);
  for (int g = 0; g < params.n_groups; g++) {
    int ahead = 0;
    for (int other = 0; other < params.n_groups; other++) {
      const bool beats = group_scores[other] > group_scores[g] ||
                         (group_scores[other] == group_scores[g] && other < g);
      if (beats) ahead++;
    }
    if (ahead < params.n_groups_used) continue;
    for (int i = 0; i < size; i++) scores[g * size + i] = kLowest;
  }
}

// scores[e] = probability (or logit) + bias, with NaN as the lowest score.
void selection_scores(const RouteParams& params, const float* logits, const float* bias, const Softmax& softmax,
                      float* scores) {
  for (int e = 0; e < params.n_experts; e++) {
    double score = logits[e];
    if (params.gating == Gating::kSoftmax) score = softmax.of(logits[e]);
    if (params.gating == Gating::kSigmoid) score = sigmoid(logits[e]);
    const float sum = static_cast<float>(score) + (bias != nullptr ? bias[e] : 0.0f);
    scores[e] = std::isnan(sum) ? kLowest : sum;
  }
}

}  // namespace

void route(const RouteParams& params, const float* logits, const float* selection_bias, int32_t* ids, float* weights,
           float* scratch) {
  const int k = params.n_used;
  ASSERT(k >= 1 && k <= params.n_experts);
  float* scores = scratch;
  Softmax softmax;
  if (params.gating == Gating::kSoftmax) softmax = Softmax::over(params.n_experts, [&](int e) { return logits[e]; });
  selection_scores(params, logits, selection_bias, softmax, scores);
  if (params.n_groups > 1) mask_groups(params, scores, scratch + params.n_experts);

  int count = 0;
  for (int e = 0; e < params.n_experts; e++) count = insert_best(scores, e, ids, count, k);

  if (params.gating == Gating::kSoftmaxSelected) softmax = Softmax::over(k, [&](int j) { return logits[ids[j]]; });
  const auto weight = [&](int j) {
    const double logit = logits[ids[j]];
    return params.gating == Gating::kSigmoid ? sigmoid(logit) : softmax.of(logit);
  };
  double total = 0;
  for (int j = 0; j < k; j++) total += weight(j);
  double factor = 1;
  if (params.normalize) factor /= total > kWeightSumMin ? total : kWeightSumMin;
  if (params.scale != 0) factor *= params.scale;
  for (int j = 0; j < k; j++) weights[j] = static_cast<float>(weight(j) * factor);
}

}  // namespace strata::kernels
