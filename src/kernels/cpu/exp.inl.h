// e^x: accurate, and with IEEE's ends.
#pragma once

#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2)/2, where the Taylor polynomial of degree 7 is off by less
// than 6e-9. ln 2 is split in two, the first part short enough that n times it is exact. The power of two is applied
// in two halves: results below the normal range round once, results above it become inf. The arguments are cut where
// the result is inf or 0 anyway; NaN stays NaN.
static inline Vec exp(Vec x) {
  x = Vec::set(-105.0f).max(Vec::set(90.0f).min(x));
  const Vec n = (x * Vec::set(1.44269504f)).round();
  const Vec minus_n = Vec::zero() - n;
  const Vec r = (x.fma(minus_n, Vec::set(0.693359375f))).fma(minus_n, Vec::set(-2.12194440e-4f));
  Vec tail = Vec::set(1.0f / 5040);
  tail = Vec::set(1.0f / 720).fma(tail, r);
  tail = Vec::set(1.0f / 120).fma(tail, r);
  tail = Vec::set(1.0f / 24).fma(tail, r);
  tail = Vec::set(1.0f / 6).fma(tail, r);
  tail = Vec::set(0.5f).fma(tail, r);
  const Vec mantissa = Vec::set(1.0f) + r.fma(tail, r * r);
  const Vec half = (n * Vec::set(0.5f)).round();
  return mantissa * Vec::pow2(half) * Vec::pow2(n - half);
}

static inline float exp(float x) {
  float lane[Vec::kLanes];
  exp(Vec::set(x)).store(lane);
  return lane[0];
}

}  // namespace strata::kernels::STRATA_ISA_NS
