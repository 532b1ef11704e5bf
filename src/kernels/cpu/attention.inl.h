// The KV cache's element formats, and softmax attention of one row over its blocks.
#pragma once

#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/simd.h"
#include "quant/type.h"

namespace strata::kernels::STRATA_ISA_NS {

static constexpr float kHalfMax = 65504.0f;

static void store_halves(const float* x, uint8_t* dst, int64_t n) {
  int64_t i = 0;
#if defined(__AVX2__)
  const __m256 top = _mm256_set1_ps(kHalfMax);
  const __m256 bottom = _mm256_set1_ps(-kHalfMax);
  for (; i + 8 <= n; i += 8) {
    const __m256 value = _mm256_max_ps(bottom, _mm256_min_ps(top, _mm256_loadu_ps(x + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + 2 * i), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; i++) {
    const uint16_t half = quant::f32_to_f16(x[i]);
    std::memcpy(dst + 2 * i, &half, sizeof half);
  }
}

static void kv_store(KvType type, const float* x, uint8_t* dst, int64_t n) {
  if (type == KvType::kF32) {
    std::memcpy(dst, x, static_cast<size_t>(n) * sizeof(float));
  } else {
    store_halves(x, dst, n);
  }
}

// Loads of cached elements, by type: whole vectors, and the first n < kLanes elements with zeros behind.
struct CachedF32 {
  static constexpr size_t kBytes = 4;
  static Vec load(const uint8_t* p) {
    Vec x;
    std::memcpy(&x.v, p, sizeof x.v);
    return x;
  }
  static Vec load_part(const uint8_t* p, int n) {
    float lane[Vec::kLanes] = {};
    std::memcpy(lane, p, static_cast<size_t>(n) * kBytes);
    return Vec::load(lane);
  }
};
struct CachedF16 {
  static constexpr size_t kBytes = 2;
  static Vec load(const uint8_t* p) { return Vec::load_half(p); }
  static Vec load_part(const uint8_t* p, int n) {
    uint8_t lane[2 * Vec::kLanes] = {};
    std::memcpy(lane, p, static_cast<size_t>(n) * kBytes);
    return Vec::load_half(lane);
  }
};

// scores[h * score_stride] = scale * q_h . key for kHeads heads: even and odd vectors of a head in two sums.
template <class Cached, int kHeads>
static inline void score_key(const AttentionArgs& args, const float* q, const uint8_t* key, float* scores,
                             int64_t score_stride) {
  Vec even[kHeads];
  Vec odd[kHeads];
  for (int h = 0; h < kHeads; h++) even[h] = odd[h] = Vec::zero();
  int d = 0;
  for (; d + 2 * Vec::kLanes <= args.head_dim; d += 2 * Vec::kLanes) {
    const Vec k0 = Cached::load(key + static_cast<size_t>(d) * Cached::kBytes);
    const Vec k1 = Cached::load(key + static_cast<size_t>(d + Vec::kLanes) * Cached::kBytes);
    for (int h = 0; h < kHeads; h++) {
      even[h] = even[h].fma(Vec::load(q + h * args.q_stride + d), k0);
      odd[h] = odd[h].fma(Vec::load(q + h * args.q_stride + d + Vec::kLanes), k1);
    }
  }
  for (; d < args.head_dim; d += Vec::kLanes) {
    const int left = args.head_dim - d;
    const uint8_t* from = key + static_cast<size_t>(d) * Cached::kBytes;
    const Vec k = left >= Vec::kLanes ? Cached::load(from) : Cached::load_part(from, left);
    for (int h = 0; h < kHeads; h++) even[h] = even[h].fma(load_upto(q + h * args.q_stride + d, left), k);
  }
  for (int h = 0; h < kHeads; h++) scores[h * score_stride] = args.scale * sum(even[h] + odd[h]);
}

// acc_h += sum_t p_h[t] * value_t over n tokens for kHeads heads and kVecs vectors of the value (the last one may have
// `last` < kLanes elements); acc of a head is rescaled first.
template <class Cached, int kHeads, int kVecs>
static inline void add_values(const uint8_t* values, size_t token_bytes, int n, int last, const float* p,
                              int64_t p_stride, const float* rescale, float* acc, int64_t acc_stride) {
  constexpr int kLanes = Vec::kLanes;
  Vec total[kHeads][kVecs];
  for (int h = 0; h < kHeads; h++) {
    for (int v = 0; v < kVecs; v++) {
      const int64_t left = v + 1 < kVecs ? kLanes : last;
      total[h][v] = load_upto(acc + h * acc_stride + v * kLanes, left) * Vec::set(rescale[h]);
    }
  }
  for (int t = 0; t < n; t++) {
    const uint8_t* from = values + static_cast<size_t>(t) * token_bytes;
    Vec value[kVecs];
    for (int v = 0; v < kVecs; v++) {
      const uint8_t* at = from + static_cast<size_t>(v * kLanes) * Cached::kBytes;
      value[v] = v + 1 < kVecs || last == kLanes ? Cached::load(at) : Cached::load_part(at, last);
    }
    for (int h = 0; h < kHeads; h++) {
      const Vec weight = Vec::set(p[h * p_stride + t]);
      for (int v = 0; v < kVecs; v++) total[h][v] = total[h][v].fma(weight, value[v]);
    }
  }
  for (int h = 0; h < kHeads; h++) {
    for (int v = 0; v < kVecs; v++) {
      const int64_t left = v + 1 < kVecs ? kLanes : last;
      store_upto(total[h][v], acc + h * acc_stride + v * kLanes, left);
    }
  }
}

// A softmax over the blocks seen so far: the sum of exp(score - maximum), and the maximum.
struct RunningSoftmax {
  float maximum;
  float total;
};

// The largest of n > 0 values.
static float largest(const float* x, int n) {
  float best = x[0];
  if (n >= Vec::kLanes) {
    Vec lanes = Vec::load(x + n - Vec::kLanes);  // overlaps the whole vectors, which a maximum doesn't mind
    for (int t = 0; t + Vec::kLanes < n; t += Vec::kLanes) lanes = lanes.max(Vec::load(x + t));
    float lane[Vec::kLanes];
    lanes.store(lane);
    for (int width = Vec::kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; i++) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
    }
    best = lane[0];
  } else {
    for (int t = 1; t < n; t++) best = best > x[t] ? best : x[t];
  }
  return best;
}

// Turns n scores into exp(score - maximum) after raising the maximum to cover them; returns the factor that brings
// what was summed before to the raised maximum.
static float soften(float* scores, int n, RunningSoftmax* running) {
  const float before = running->maximum;
  const float here = largest(scores, n);
  running->maximum = before > here ? before : here;
  const Vec maximum = Vec::set(running->maximum);
  Vec block_total = Vec::zero();
  for (int t = 0; t < n; t += Vec::kLanes) {
    const int left = n - t;
    store_upto(exp(load_upto(scores + t, left) - maximum), scores + t, left);
    block_total = block_total + load_upto(scores + t, left);
  }
  const float rescale = exp(before - running->maximum);
  running->total = running->total * rescale + sum(block_total);
  return rescale;
}

// One block of n visible tokens for kHeads heads.
template <class Cached, int kHeads>
static void attend_block(const AttentionArgs& args, const float* q, const uint8_t* keys, const uint8_t* values, int n,
                         float* scores, RunningSoftmax* running, float* acc) {
  for (int t = 0; t < n; t++) {
    score_key<Cached, kHeads>(args, q, keys + static_cast<size_t>(t) * args.k_token_bytes, scores + t,
                              args.block_tokens);
  }
  float rescale[kHeads];
  for (int h = 0; h < kHeads; h++) rescale[h] = soften(scores + int64_t{h} * args.block_tokens, n, &running[h]);
  for (int d = 0; d < args.value_dim;) {
    const int left = args.value_dim - d;
    const uint8_t* from = values + static_cast<size_t>(d) * Cached::kBytes;
    if (left >= 2 * Vec::kLanes) {
      add_values<Cached, kHeads, 2>(from, args.v_token_bytes, n, Vec::kLanes, scores, args.block_tokens, rescale,
                                    acc + d, args.value_dim);
      d += 2 * Vec::kLanes;
    } else {
      add_values<Cached, kHeads, 1>(from, args.v_token_bytes, n, left < Vec::kLanes ? left : Vec::kLanes, scores,
                                    args.block_tokens, rescale, acc + d, args.value_dim);
      d += Vec::kLanes;
    }
  }
}

// out = acc / total, after the sink's logit has joined the sum.
static void finish_head(const float* acc, RunningSoftmax running, const float* sink, float* out, int value_dim) {
  float factor = 1;
  if (sink != nullptr) {
    const float maximum = *sink > running.maximum ? *sink : running.maximum;
    factor = exp(running.maximum - maximum);
    running.total = running.total * factor + exp(*sink - maximum);
  }
  const Vec scale = Vec::set(factor / running.total);
  for (int d = 0; d < value_dim; d += Vec::kLanes) {
    store_upto(load_upto(acc + d, value_dim - d) * scale, out + d, value_dim - d);
  }
}

// kHeads query heads from `head` on, over all blocks. Scratch: kHeads accumulators, then kHeads rows of scores.
template <class Cached, int kHeads>
static void attend_heads(const AttentionArgs& args, int head) {
  float* acc = args.scratch;
  float* scores = acc + int64_t{kHeads} * args.value_dim;
  const float* q = args.q + head * args.q_stride;
  RunningSoftmax running[kHeads];
  for (int h = 0; h < kHeads; h++) running[h] = {-__builtin_inff(), 0};
  for (int64_t i = 0; i < int64_t{kHeads} * args.value_dim; i++) acc[i] = 0;

  const int64_t n = args.block_tokens;
  for (int64_t position = args.first; position <= args.last;) {
    const int64_t block = position / n;
    const int64_t offset = position - block * n;
    const int64_t end = (block + 1) * n <= args.last ? (block + 1) * n : args.last + 1;
    const size_t token = static_cast<size_t>(args.block_table[block] * n + offset);
    attend_block<Cached, kHeads>(args, q, args.k + token * args.k_token_bytes + args.k_head_offset,
                                 args.v + token * args.v_token_bytes + args.v_head_offset,
                                 static_cast<int>(end - position), scores, running, acc);
    position = end;
  }
  for (int h = 0; h < kHeads; h++) {
    finish_head(acc + int64_t{h} * args.value_dim, running[h], args.sinks ? args.sinks + head + h : nullptr,
                args.out + (head + h) * args.out_stride, args.value_dim);
  }
}

template <class Cached>
static void attend(const AttentionArgs& args) {
  int head = 0;
  for (; head + 4 <= args.n_q; head += 4) attend_heads<Cached, 4>(args, head);
  for (; head < args.n_q; head++) attend_heads<Cached, 1>(args, head);
}

static void attention(const AttentionArgs& args) {
  if (args.type == KvType::kF32) {
    attend<CachedF32>(args);
  } else {
    attend<CachedF16>(args);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
