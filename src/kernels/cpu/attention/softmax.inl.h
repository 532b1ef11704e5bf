// The softmax that is being formed: over the blocks of a span with a running maximum, and over spans by joining them.
#pragma once

#include "kernels/cpu/attention/scores.inl.h"
#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// The softmaxes of n queries so far, in memory of attention_state(n, value_dim) floats.
struct Softmax {
  float* acc;      // [n][width], sum of exp(score - maximum) * value
  float* maximum;  // [n]
  float* total;    // [n], sum of exp(score - maximum)
  int64_t width;   // of values, with what makes whole vectors of them

  static Softmax at(float* memory, int n, int64_t width) {
    return {memory, memory + n * width, memory + n * width + n, width};
  }
  float* acc_of(int64_t i) const { return acc + i * width; }
  Softmax from(int64_t i) const { return {acc_of(i), maximum + i, total + i, width}; }
  void clear(int n) const {
    for (int64_t i = 0; i < n * width; i++) acc[i] = 0;
    for (int i = 0; i < n; i++) {
      maximum[i] = -__builtin_inff();
      total[i] = 0;
    }
  }
};

// Up to kLanes queries: turns the n scores of each into exp(score - maximum) after the maximum was raised to cover
// them, adds them up, and gives the factor that brings what was summed before to the raised maximum. Behind the n
// scores of a query -inf fills the last vector; it becomes 0.
static void soften_some(const Softmax& softmax, int n_queries, float* scores, int64_t score_stride, int n,
                        float* rescale) {
  Vec peak[Vec::kLanes];
  for (int i = 0; i < Vec::kLanes; i++) {
    const float* row = scores + (i < n_queries ? i : 0) * score_stride;
    peak[i] = Vec::load(row);
    for (int t = Vec::kLanes; t < n; t += Vec::kLanes) peak[i] = peak[i].max(Vec::load(row + t));
  }
  const Vec before = load_upto(softmax.maximum, n_queries);
  const Vec raised = before.max(fold_lanes<MaxLanes>(peak));
  const Vec factor = exp(before - raised);
  store_upto(raised, softmax.maximum, n_queries);
  store_upto(factor, rescale, n_queries);

  Vec sums[Vec::kLanes];
  for (Vec& sum : sums) sum = Vec::zero();
  for (int i = 0; i < n_queries; i++) {
    float* row = scores + i * score_stride;
    const Vec maximum = Vec::set(softmax.maximum[i]);
    for (int t = 0; t < n; t += Vec::kLanes) {
      const Vec weight = exp(Vec::load(row + t) - maximum);
      weight.store(row + t);
      sums[i] = sums[i] + weight;
    }
  }
  const Vec total = load_upto(softmax.total, n_queries) * factor + fold_lanes<AddLanes>(sums);
  store_upto(total, softmax.total, n_queries);
}

static void soften(const Softmax& softmax, int n_queries, float* scores, int64_t score_stride, int n, float* rescale) {
  for (int i = 0; i < n_queries; i += Vec::kLanes) {
    const int some = n_queries - i < Vec::kLanes ? n_queries - i : Vec::kLanes;
    soften_some(softmax.from(i), some, scores + i * score_stride, score_stride, n, rescale + i);
  }
}

// The softmax of one query over the spans before, and over one more: brought to the larger maximum and added.
static void join_span(const Softmax& all, const Softmax& span) {
  const float before = *all.maximum;
  const float here = *span.maximum;
  const float maximum = here > before ? here : before;
  const float factor = exp(before - maximum);
  const float span_factor = exp(here - maximum);
  *all.maximum = maximum;
  *all.total = *all.total * factor + *span.total * span_factor;
  for (int64_t d = 0; d < all.width; d += Vec::kLanes) {
    const Vec scaled = Vec::load(all.acc + d) * Vec::set(factor);
    scaled.fma(Vec::load(span.acc + d), Vec::set(span_factor)).store(all.acc + d);
  }
}

// The first span of a query.
static void copy_span(const Softmax& all, const Softmax& span) {
  std::memcpy(all.acc, span.acc, static_cast<size_t>(all.width) * sizeof(float));
  *all.maximum = *span.maximum;
  *all.total = *span.total;
}

// out = acc / total for one query, after the sink's logit has joined the sum. sink may be null.
static void finish_query(const Softmax& softmax, const float* sink, float* out, int value_dim) {
  float factor = 1;
  float total = *softmax.total;
  if (sink != nullptr) {
    const float before = *softmax.maximum;
    const float maximum = *sink > before ? *sink : before;
    factor = exp(before - maximum);
    total = total * factor + exp(*sink - maximum);
  }
  const Vec scale = Vec::set(factor / total);
  for (int d = 0; d < value_dim; d += Vec::kLanes) {
    store_upto(Vec::load(softmax.acc + d) * scale, out + d, value_dim - d);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
