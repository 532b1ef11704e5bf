// Products of queries and keys. A score is one sum over vectors of the head, whose lanes are added in the order of
// sum(); several scores are formed at once, and the order within each is the same whichever are formed together.
#pragma once

#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

struct AddLanes {
  static Vec of(Vec a, Vec b) { return a + b; }
};
struct MaxLanes {
  static Vec of(Vec a, Vec b) { return a.max(b); }
};

// Lane i of the result is the fold of all lanes of x[i], from the halves down: l with l + kLanes / 2, then those with
// their neighbours at half that distance, and so on.
#if defined(__AVX512F__)
template <class Fold>
static inline Vec fold_lanes(const Vec* x) {
  Vec half[8];
  for (int i = 0; i < 8; i++) {
    const int at = i % 4 + i / 4 * 8;
    const __m512 a = x[at].v, b = x[at + 4].v;
    half[i] =
        Fold::of({_mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0x44)}, {_mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0xEE)});
  }
  Vec quarter[4];
  for (int i = 0; i < 4; i++) {
    const __m512 a = half[i].v, b = half[i + 4].v;
    quarter[i] =
        Fold::of({_mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0x88)}, {_mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0xDD)});
  }
  Vec pair[2];
  for (int i = 0; i < 2; i++) {
    const __m512 a = quarter[2 * i].v, b = quarter[2 * i + 1].v;
    pair[i] = Fold::of({_mm512_shuffle_ps(a, b, 0x44)}, {_mm512_shuffle_ps(a, b, 0xEE)});
  }
  return Fold::of({_mm512_shuffle_ps(pair[0].v, pair[1].v, 0x88)}, {_mm512_shuffle_ps(pair[0].v, pair[1].v, 0xDD)});
}
#elif defined(__AVX2__)
template <class Fold>
static inline Vec fold_lanes(const Vec* x) {
  Vec quarter[4];
  for (int i = 0; i < 4; i++) {
    const __m256 a = x[i].v, b = x[i + 4].v;
    quarter[i] = Fold::of({_mm256_permute2f128_ps(a, b, 0x20)}, {_mm256_permute2f128_ps(a, b, 0x31)});
  }
  Vec pair[2];
  for (int i = 0; i < 2; i++) {
    const __m256 a = quarter[2 * i].v, b = quarter[2 * i + 1].v;
    pair[i] = Fold::of({_mm256_shuffle_ps(a, b, 0x44)}, {_mm256_shuffle_ps(a, b, 0xEE)});
  }
  return Fold::of({_mm256_shuffle_ps(pair[0].v, pair[1].v, 0x88)}, {_mm256_shuffle_ps(pair[0].v, pair[1].v, 0xDD)});
}
#else
template <class Fold>
static inline Vec fold_lanes(const Vec* x) {
  const auto halves = [](Vec a, Vec b) {
    return Fold::of({__builtin_shufflevector(a.v, b.v, 0, 1, 4, 5)}, {__builtin_shufflevector(a.v, b.v, 2, 3, 6, 7)});
  };
  const Vec pair[2] = {halves(x[0], x[1]), halves(x[2], x[3])};
  return Fold::of({__builtin_shufflevector(pair[0].v, pair[1].v, 0, 2, 4, 6)},
                  {__builtin_shufflevector(pair[0].v, pair[1].v, 1, 3, 5, 7)});
}
#endif

// Rows of floats, `stride` from one to the next.
struct FloatRows {
  const float* data;
  int64_t stride;
  const float* operator[](int64_t i) const { return data + i * stride; }
};

// scores[i * score_stride + t] = scale * query_i . key_t for kQueries queries and n keys of `width` elements, a
// multiple of kLanes. Keys are taken several at a time, the last one over again where they run out: up to kLanes - 1
// scores behind the n are written, too.
template <int kQueries>
static inline void score_queries(FloatRows queries, FloatRows keys, int n, int width, float scale, float* scores,
                                 int64_t score_stride) {
  constexpr int kKeys = Vec::kLanes / kQueries;
  for (int t = 0; t < n; t += kKeys) {
    const float* key[kKeys];
    for (int j = 0; j < kKeys; j++) key[j] = keys[t + j < n ? t + j : n - 1];
    Vec total[Vec::kLanes];
    for (Vec& sum : total) sum = Vec::zero();
    for (int d = 0; d < width; d += Vec::kLanes) {
      Vec query[kQueries];
      for (int i = 0; i < kQueries; i++) query[i] = Vec::load(queries[i] + d);
      for (int j = 0; j < kKeys; j++) {
        const Vec k = Vec::load(key[j] + d);
        for (int i = 0; i < kQueries; i++) total[i * kKeys + j] = total[i * kKeys + j].fma(query[i], k);
      }
    }
    float lane[Vec::kLanes];
    (fold_lanes<AddLanes>(total) * Vec::set(scale)).store(lane);
    for (int i = 0; i < kQueries; i++) {
      std::memcpy(scores + i * score_stride + t, lane + i * kKeys, kKeys * sizeof(float));
    }
  }
}

// Scores of n_queries queries; behind the n of each, up to the next multiple of kLanes, stands -inf.
static void score(FloatRows queries, int n_queries, FloatRows keys, int n, int width, float scale, float* scores,
                  int64_t score_stride) {
  int i = 0;
  const auto from = [&](int first) { return FloatRows{queries[first], queries.stride}; };
  for (; i + 4 <= n_queries; i += 4)
    score_queries<4>(from(i), keys, n, width, scale, scores + i * score_stride, score_stride);
  for (; i + 2 <= n_queries; i += 2)
    score_queries<2>(from(i), keys, n, width, scale, scores + i * score_stride, score_stride);
  for (; i < n_queries; i++)
    score_queries<1>(from(i), keys, n, width, scale, scores + i * score_stride, score_stride);
  const int rest = n % Vec::kLanes;
  if (rest == 0) return;
  for (i = 0; i < n_queries; i++) {
    for (int t = n; t < n + Vec::kLanes - rest; t++) scores[i * score_stride + t] = -__builtin_inff();
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
