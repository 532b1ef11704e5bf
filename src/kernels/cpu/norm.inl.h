// Norms and rotary embedding of one row.
#pragma once

#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// sum x[i]^2: four running vectors over whole groups, then the rest into the first one.
static float sum_of_squares(const float* x, int64_t n) {
  constexpr int64_t kStep = 4 * Vec::kLanes;
  Vec acc[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int u = 0; u < 4; u++) {
      const Vec value = Vec::load(x + i + u * Vec::kLanes);
      acc[u] = acc[u].fma(value, value);
    }
  }
  for (; i < n; i += Vec::kLanes) {
    const Vec value = load_upto(x + i, n - i);
    acc[0] = acc[0].fma(value, value);
  }
  return sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

static void rms_norm(const float* x, const float* gain, float* y, int64_t n, float eps) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const Vec factor = Vec::set(1.0f / __builtin_sqrtf(mean + eps));
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    Vec value = load_upto(x + i, n - i) * factor;
    if (gain != nullptr) value = value * load_upto(gain + i, n - i);
    store_upto(value, y + i, n - i);
  }
}

static void l2_norm(const float* x, float* y, int64_t n, float eps, float scale) {
  const Vec factor = Vec::set(scale / __builtin_sqrtf(sum_of_squares(x, n) + eps));
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    store_upto(load_upto(x + i, n - i) * factor, y + i, n - i);
  }
}

static void rope_pairs(float* __restrict x, const float* __restrict cos, const float* __restrict sin, int n_pairs) {
  for (int p = 0; p < n_pairs; p++) {
    const float a = x[2 * p];
    const float b = x[2 * p + 1];
    x[2 * p] = a * cos[p] - b * sin[p];
    x[2 * p + 1] = a * sin[p] + b * cos[p];
  }
}

static void rope_halves(float* x, const float* cos, const float* sin, int n_pairs) {
  float* y = x + n_pairs;
  for (int p = 0; p < n_pairs; p += Vec::kLanes) {
    const int left = n_pairs - p;
    const Vec a = load_upto(x + p, left);
    const Vec b = load_upto(y + p, left);
    const Vec c = load_upto(cos + p, left);
    const Vec s = load_upto(sin + p, left);
    store_upto(a * c - b * s, x + p, left);
    store_upto(a * s + b * c, y + p, left);
  }
}

static void rope(float* x, const float* cos, const float* sin, int n_pairs, bool interleaved) {
  if (interleaved) {
    rope_pairs(x, cos, sin, n_pairs);
  } else {
    rope_halves(x, cos, sin, n_pairs);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
