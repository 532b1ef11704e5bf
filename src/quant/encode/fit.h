// Scales of one group of values, chosen by least squares: a few scales around the one that just covers the group are
// tried; with the codes that each gives, the best scale has a closed form; the one with the smallest error wins.
//
// Groups are first divided by their largest magnitude, so that no sum overflows or underflows. Sums run in four lanes,
// an order that does not depend on the compiler.
#pragma once

#include <cmath>

#include <immintrin.h>

#include "quant/encode/numbers.h"

namespace strata::quant {

inline float sum_of_lanes(__m128 x) {
  float lanes[4];
  _mm_storeu_ps(lanes, x);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// nearest_even of four numbers.
inline __m128 nearest_even(__m128 x, float low, float high) {
  const __m128 ones = _mm_set1_ps(12582912.0f);
  return _mm_min_ps(_mm_max_ps(x, _mm_set1_ps(low)), _mm_set1_ps(high)) + ones - ones;
}

// x ~ scale * q - min; both are >= 0.
struct AffineFit {
  float scale = 0;
  float min = 0;
};

// A group of values for formats with a scale and a min, codes 0..kMax.
template <int kCount, int kMax>
class AffineGroup {
 public:
  void load(const float* x) {
    *this = {};
    magnitude_ = max_magnitude(x, kCount);
    if (magnitude_ == 0) return;
    float squares = 0;
    high_ = x[0] / magnitude_;
    for (int i = 0; i < kCount; i++) {
      y_[i] = x[i] / magnitude_;
      squares += y_[i] * y_[i];
      low_ = y_[i] < low_ ? y_[i] : low_;
      high_ = y_[i] > high_ ? y_[i] : high_;
    }
    const float rms = std::sqrt(squares / kCount);
    for (int i = 0; i < kCount; i++) {
      w_[i] = rms + std::fabs(y_[i]);
      sum_w_ += w_[i];
      sum_wy_ += w_[i] * y_[i];
      sum_wyy_ += w_[i] * y_[i] * y_[i];
    }
  }

  // The best scale and min, as if any could be stored.
  AffineFit fit() const {
    const float range = high_ - low_;
    if (range == 0) return {0, -low_ * magnitude_};
    AffineFit best{range / kMax, -low_};
    float least = INFINITY;
    for (int step = -10; step <= 10; step++) {
      AffineFit candidate;
      const float error = fit_codes((kMax + 0.1f * static_cast<float>(step)) / range, candidate);
      if (error < least) {
        least = error;
        best = candidate;
      }
    }
    return {best.scale * magnitude_, best.min * magnitude_};
  }

  // The weighted squared error, in units of the group, with the nearest codes under this scale and min.
  float error(AffineFit used) const {
    const float scale = used.scale / magnitude_, min = used.min / magnitude_;
    const float inverse = inverse_or_zero(scale);
    __m128 sum = _mm_setzero_ps();
    for (int i = 0; i < kCount; i += 4) {
      const __m128 y = _mm_loadu_ps(y_ + i);
      const __m128 q = nearest_even(_mm_set1_ps(inverse) * (y + _mm_set1_ps(min)), 0, kMax);
      const __m128 rest = _mm_set1_ps(scale) * q - _mm_set1_ps(min) - y;
      sum += _mm_loadu_ps(w_ + i) * rest * rest;
    }
    return sum_of_lanes(sum);
  }

 private:
  // The best fit with the codes that `inverse`, the inverse of a scale, gives; its weighted squared error, infinite
  // where there is no fit.
  float fit_codes(float inverse, AffineFit& fit) const {
    __m128 q_lanes = _mm_setzero_ps(), qq_lanes = q_lanes, qy_lanes = q_lanes;
    for (int i = 0; i < kCount; i += 4) {
      const __m128 y = _mm_loadu_ps(y_ + i);
      const __m128 code = nearest_even(_mm_set1_ps(inverse) * (y - _mm_set1_ps(low_)), 0, kMax);
      const __m128 weighted = _mm_loadu_ps(w_ + i) * code;
      q_lanes += weighted;
      qq_lanes += weighted * code;
      qy_lanes += weighted * y;
    }
    const float q = sum_of_lanes(q_lanes), qq = sum_of_lanes(qq_lanes), qy = sum_of_lanes(qy_lanes);
    const float determinant = sum_w_ * qq - q * q;
    if (!(determinant > 0)) return INFINITY;
    float scale = (sum_w_ * qy - q * sum_wy_) / determinant;
    float offset = (qq * sum_wy_ - q * qy) / determinant;
    if (offset > 0) {  // the formats can only subtract
      offset = 0;
      scale = qy / qq;
    }
    if (!(scale > 0)) return INFINITY;
    fit = {scale, -offset};
    return sum_wyy_ - scale * qy - offset * sum_wy_;
  }

  float magnitude_ = 0;    // the largest; everything below is in units of it
  float y_[kCount] = {};   // values
  float w_[kCount] = {};   // weights: large values count more
  float low_ = 0, high_ = 0;  // of the values; low_ also of 0, since a min cannot be negative
  float sum_w_ = 0, sum_wy_ = 0, sum_wyy_ = 0;
};

// The s for which s * nearest(x / s) comes closest to x in the least squares weighted by x^2. nearest() gives, of four
// numbers, what their nearest codes stand for; `first` is what the group's extreme has when the whole range is used,
// and the trials give it first + step * t for t = -kSteps..kSteps.
template <int kCount, int kSteps, class Nearest>
float fit_symmetric(const float* x, float first, float step, const Nearest& nearest) {
  const float v = extreme(x, kCount);
  if (v == 0) return 0;
  float y[kCount], best = 1 / first, most = 0;
  for (int i = 0; i < kCount; i++) y[i] = x[i] / v;
  for (int t = -kSteps; t <= kSteps; t++) {
    const __m128 inverse = _mm_set1_ps(first + step * static_cast<float>(t));
    __m128 qy_lanes = _mm_setzero_ps(), qq_lanes = qy_lanes;
    for (int i = 0; i < kCount; i += 4) {
      const __m128 yi = _mm_loadu_ps(y + i);
      const __m128 q = nearest(inverse * yi);
      const __m128 wq = yi * yi * q;
      qy_lanes += wq * yi;
      qq_lanes += wq * q;
    }
    const float qy = sum_of_lanes(qy_lanes), qq = sum_of_lanes(qq_lanes);
    // qy / qq is the best scale for these codes, and qy^2 / qq what it takes off the error.
    if (qq > 0 && qy * qy > most * qq) {
      most = qy * qy / qq;
      best = qy / qq;
    }
  }
  return best * v;
}

}  // namespace strata::quant
