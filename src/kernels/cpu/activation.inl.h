// Sigmoid and the element-wise activations built on it.
#pragma once

#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// 1 / (1 + e^-x), written so that the only exponent is <= 0: keeps its relative accuracy far below zero.
static inline Vec sigmoid(Vec x) {
  const Vec one = Vec::set(1.0f);
  const Vec e = exp(Vec::zero() - x.abs());
  return Vec::select_negative(x, e, one) / (one + e);
}

static inline Vec silu(Vec x) { return x * sigmoid(x); }

static void silu_mul(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    store_upto(silu(load_upto(gate + i, n - i)) * load_upto(up + i, n - i), out + i, n - i);
  }
}

static void swiglu_clamped(const float* gate, const float* up, float* out, int64_t n, float alpha, float limit) {
  const Vec top = Vec::set(limit);
  const Vec bottom = Vec::set(-limit);
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    const Vec g = top.min(load_upto(gate + i, n - i));
    const Vec u = bottom.max(top.min(load_upto(up + i, n - i)));
    store_upto(g * sigmoid(Vec::set(alpha) * g) * (u + Vec::set(1.0f)), out + i, n - i);
  }
}

static void sigmoid_mul(float* x, const float* gate, int64_t n) {
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    store_upto(load_upto(x + i, n - i) * sigmoid(load_upto(gate + i, n - i)), x + i, n - i);
  }
}

static void silu_gate(float* x, const float* gate, int64_t n) {
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    store_upto(load_upto(x + i, n - i) * silu(load_upto(gate + i, n - i)), x + i, n - i);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
