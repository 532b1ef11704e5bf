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

// acc_h = rescale_h * acc_h + sum_t p_h[t] * value_t over n tokens for kHeads heads and kVecs vectors of the value;
// kVecs = 0 stands for one vector of `part` < kLanes elements.
template <class Cached, int kHeads, int kVecs>
static inline void add_values(const uint8_t* values, size_t token_bytes, int n, int part, const float* p,
                              int64_t p_stride, const float* rescale, float* acc, int64_t acc_stride) {
  constexpr int kLanes = Vec::kLanes;
  constexpr int kWidth = kVecs > 0 ? kVecs : 1;
  Vec total[kHeads][kWidth];
  for (int h = 0; h < kHeads; h++) {
    for (int v = 0; v < kWidth; v++) {
      const float* from = acc + h * acc_stride + v * kLanes;
      total[h][v] = (kVecs > 0 ? Vec::load(from) : Vec::load_part(from, part)) * Vec::set(rescale[h]);
    }
  }
  for (int t = 0; t < n; t++) {
    const uint8_t* from = values + static_cast<size_t>(t) * token_bytes;
    Vec value[kWidth];
    for (int v = 0; v < kWidth; v++) {
      const uint8_t* at = from + static_cast<size_t>(v * kLanes) * Cached::kBytes;
      value[v] = kVecs > 0 ? Cached::load(at) : Cached::load_part(at, part);
    }
    for (int h = 0; h < kHeads; h++) {
      const Vec weight = Vec::set(p[h * p_stride + t]);
      for (int v = 0; v < kWidth; v++) total[h][v] = total[h][v].fma(weight, value[v]);
    }
  }
  for (int h = 0; h < kHeads; h++) {
    for (int v = 0; v < kWidth; v++) {
      float* to = acc + h * acc_stride + v * kLanes;
      if (kVecs > 0) {
        total[h][v].store(to);
      } else {
        total[h][v].store_part(to, part);
      }
    }
  }
}

// The softmax over the blocks seen so far, in the caller's scratch.
struct Running {
  float* acc;      // [n_q][value_dim], sum of exp(score - maximum) * value
  float* scores;   // [n_q][block_tokens], of the block at hand
  float* maximum;  // [n_q]
  float* total;    // [n_q], sum of exp(score - maximum)
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
static float soften(float* scores, int n, float* running_maximum, float* running_total) {
  const float before = *running_maximum;
  const float here = largest(scores, n);
  *running_maximum = before > here ? before : here;
  const Vec maximum = Vec::set(*running_maximum);
  Vec block_total = Vec::zero();
  for (int t = 0; t < n; t += Vec::kLanes) {
    const int left = n - t;
    store_upto(exp(load_upto(scores + t, left) - maximum), scores + t, left);
    block_total = block_total + load_upto(scores + t, left);
  }
  const float rescale = exp(before - *running_maximum);
  *running_total = *running_total * rescale + sum(block_total);
  return rescale;
}

// n visible tokens of one block for kHeads heads from `head` on.
template <class Cached, int kHeads>
static void attend_block(const AttentionArgs& args, const Running& running, int head, const uint8_t* keys,
                         const uint8_t* values, int n) {
  constexpr int kLanes = Vec::kLanes;
  const int64_t p_stride = args.block_tokens;
  float* scores = running.scores + head * p_stride;
  for (int t = 0; t < n; t++) {
    score_key<Cached, kHeads>(args, args.q + head * args.q_stride, keys + static_cast<size_t>(t) * args.k_token_bytes,
                              scores + t, p_stride);
  }
  float rescale[kHeads];
  for (int h = 0; h < kHeads; h++) {
    rescale[h] = soften(scores + h * p_stride, n, running.maximum + head + h, running.total + head + h);
  }
  const int width = args.value_dim;
  float* acc = running.acc + int64_t{head} * width;
  const auto at = [values](int d) { return values + static_cast<size_t>(d) * Cached::kBytes; };
  int d = 0;
  for (; d + 2 * kLanes <= width; d += 2 * kLanes) {
    add_values<Cached, kHeads, 2>(at(d), args.v_token_bytes, n, 0, scores, p_stride, rescale, acc + d, width);
  }
  for (; d + kLanes <= width; d += kLanes) {
    add_values<Cached, kHeads, 1>(at(d), args.v_token_bytes, n, 0, scores, p_stride, rescale, acc + d, width);
  }
  if (d < width) {
    add_values<Cached, kHeads, 0>(at(d), args.v_token_bytes, n, width - d, scores, p_stride, rescale, acc + d, width);
  }
}

// out = acc / total, after the sink's logit has joined the sum.
static void finish_head(const AttentionArgs& args, const Running& running, int head) {
  float factor = 1;
  float total = running.total[head];
  if (args.sinks != nullptr) {
    const float sink = args.sinks[head];
    const float before = running.maximum[head];
    const float maximum = sink > before ? sink : before;
    factor = exp(before - maximum);
    total = total * factor + exp(sink - maximum);
  }
  const Vec scale = Vec::set(factor / total);
  const float* acc = running.acc + int64_t{head} * args.value_dim;
  float* out = args.out + head * args.out_stride;
  for (int d = 0; d < args.value_dim; d += Vec::kLanes) {
    store_upto(load_upto(acc + d, args.value_dim - d) * scale, out + d, args.value_dim - d);
  }
}

static Running start_running(const AttentionArgs& args) {
  const int64_t n_acc = int64_t{args.n_q} * args.value_dim;
  Running running;
  running.acc = args.scratch;
  running.scores = running.acc + n_acc;
  running.maximum = running.scores + int64_t{args.n_q} * args.block_tokens;
  running.total = running.maximum + args.n_q;
  for (int64_t i = 0; i < n_acc; i++) running.acc[i] = 0;
  for (int h = 0; h < args.n_q; h++) {
    running.maximum[h] = -__builtin_inff();
    running.total[h] = 0;
  }
  return running;
}

// All heads take a block before the next one, so that it is fetched from memory once.
template <class Cached>
static void attend(const AttentionArgs& args) {
  const Running running = start_running(args);
  const int64_t n = args.block_tokens;
  for (int64_t position = args.first; position <= args.last;) {
    const int64_t block = position / n;
    const int64_t end = (block + 1) * n <= args.last ? (block + 1) * n : args.last + 1;
    const auto token = static_cast<size_t>(args.block_table[block] * n + (position - block * n));
    const uint8_t* keys = args.k + token * args.k_token_bytes + args.k_head_offset;
    const uint8_t* values = args.v + token * args.v_token_bytes + args.v_head_offset;
    const int visible = static_cast<int>(end - position);
    int head = 0;
    for (; head + 4 <= args.n_q; head += 4) attend_block<Cached, 4>(args, running, head, keys, values, visible);
    for (; head < args.n_q; head++) attend_block<Cached, 1>(args, running, head, keys, values, visible);
    position = end;
  }
  for (int h = 0; h < args.n_q; h++) finish_head(args, running, h);
}

static void attention(const AttentionArgs& args) {
  if (args.type == KvType::kF32) {
    attend<CachedF32>(args);
  } else {
    attend<CachedF16>(args);
  }
}

}  // namespace strata::kernels::STRATA_ISA_NS
