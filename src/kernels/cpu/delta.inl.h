// The recurrent mixers: a causal depthwise convolution and the gated delta rule, step by step and in chunks.
#pragma once

#include "kernels/cpu/activation.inl.h"
#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA_NS {

// The taps of one channel; kTaps > 0 fixes their number at compile time.
template <int kTaps>
static inline float convolve_channel(float x, const float* w, float* state, int kernel) {
  const int past = (kTaps > 0 ? kTaps : kernel) - 1;
  float total = 0;
  for (int j = 0; j < past; j++) total += w[j] * state[j];
  total += w[past] * x;
  for (int j = 0; j + 1 < past; j++) state[j] = state[j + 1];
  if (past > 0) state[past - 1] = x;
  return total;
}

template <int kTaps>
static void convolve(const float* x, const float* w, float* state, float* y, int64_t n_channels, int kernel) {
  float lane[Vec::kLanes] = {};
  for (int64_t c = 0; c < n_channels; c += Vec::kLanes) {
    const int64_t left = n_channels - c;
    const int width = left < Vec::kLanes ? static_cast<int>(left) : Vec::kLanes;
    for (int i = 0; i < width; i++) {
      lane[i] = convolve_channel<kTaps>(x[c + i], w + (c + i) * kernel, state + (c + i) * (kernel - 1), kernel);
    }
    store_upto(silu(Vec::load(lane)), y + c, left);
  }
}

static void conv_step(const float* x, const float* w, float* state, float* y, int64_t n_channels, int kernel) {
  if (kernel == 4) {
    convolve<4>(x, w, state, y, n_channels, kernel);
  } else {
    convolve<0>(x, w, state, y, n_channels, kernel);
  }
}

// kRows rows of the state (value indices) for one token. Two passes over rows that stay in the first cache: what the
// decayed state answers to k, then the update together with the answer to q.
template <int kRows>
static inline void delta_rows(float decay, const float* q, const float* k, const float* v, float beta, float* o,
                              float* state, int dk) {
  Vec acc[kRows];
  for (int r = 0; r < kRows; r++) acc[r] = Vec::zero();
  for (int i = 0; i < dk; i += Vec::kLanes) {
    const Vec key = load_upto(k + i, dk - i);
    for (int r = 0; r < kRows; r++) acc[r] = acc[r].fma(load_upto(state + int64_t{r} * dk + i, dk - i), key);
  }
  Vec error[kRows];
  for (int r = 0; r < kRows; r++) {
    error[r] = Vec::set(beta * (v[r] - decay * sum(acc[r])));
    acc[r] = Vec::zero();
  }
  const Vec factor = Vec::set(decay);
  for (int i = 0; i < dk; i += Vec::kLanes) {
    const Vec key = load_upto(k + i, dk - i);
    const Vec query = load_upto(q + i, dk - i);
    for (int r = 0; r < kRows; r++) {
      float* row = state + int64_t{r} * dk + i;
      const Vec s = (factor * load_upto(row, dk - i)).fma(error[r], key);
      store_upto(s, row, dk - i);
      acc[r] = acc[r].fma(s, query);
    }
  }
  for (int r = 0; r < kRows; r++) o[r] = sum(acc[r]);
}

static void delta_step(const DeltaArgs& args) {
  for (int64_t t = 0; t < args.n_tokens; t++) {
    const float* q = args.q + t * args.qk_stride;
    const float* k = args.k + t * args.qk_stride;
    const float* v = args.v + t * args.v_stride;
    float* o = args.o + t * args.o_stride;
    const float decay = exp(args.g[t * args.gate_stride]);
    const float beta = args.beta[t * args.gate_stride];
    int j = 0;
    for (; j + 4 <= args.dv; j += 4) {
      delta_rows<4>(decay, q, k, v + j, beta, o + j, args.state + int64_t{j} * args.dk, args.dk);
    }
    for (; j < args.dv; j++) {
      delta_rows<1>(decay, q, k, v + j, beta, o + j, args.state + int64_t{j} * args.dk, args.dk);
    }
  }
}

// A matrix of floats whose rows are `stride` apart.
struct Rows {
  float* data;
  int64_t stride;
};
struct ConstRows {
  const float* data;
  int64_t stride;
};

// kRows x kVecs vectors of C += A B, starting at column j; kVecs = 0 stands for one vector of `part` < kLanes columns.
template <int kRows, int kVecs>
static inline void product_tile(int inner, ConstRows a, ConstRows b, Rows c, int64_t j, int part) {
  constexpr int kLanes = Vec::kLanes;
  constexpr int kWidth = kVecs > 0 ? kVecs : 1;
  const auto load = [part](const float* p) { return kVecs > 0 ? Vec::load(p) : Vec::load_part(p, part); };
  Vec acc[kRows][kWidth];
  for (int r = 0; r < kRows; r++) {
    for (int v = 0; v < kWidth; v++) acc[r][v] = load(c.data + r * c.stride + j + v * kLanes);
  }
  for (int p = 0; p < inner; p++) {
    Vec right[kWidth];
    for (int v = 0; v < kWidth; v++) right[v] = load(b.data + p * b.stride + j + v * kLanes);
    for (int r = 0; r < kRows; r++) {
      const Vec left = Vec::set(a.data[r * a.stride + p]);
      for (int v = 0; v < kWidth; v++) acc[r][v] = acc[r][v].fma(left, right[v]);
    }
  }
  for (int r = 0; r < kRows; r++) {
    for (int v = 0; v < kWidth; v++) {
      float* to = c.data + r * c.stride + j + v * kLanes;
      if (kVecs > 0) {
        acc[r][v].store(to);
      } else {
        acc[r][v].store_part(to, part);
      }
    }
  }
}

template <int kRows>
static inline void product_rows(int cols, int inner, ConstRows a, ConstRows b, Rows c) {
  constexpr int kLanes = Vec::kLanes;
  int j = 0;
  for (; j + 2 * kLanes <= cols; j += 2 * kLanes) product_tile<kRows, 2>(inner, a, b, c, j, 0);
  for (; j + kLanes <= cols; j += kLanes) product_tile<kRows, 1>(inner, a, b, c, j, 0);
  if (j < cols) product_tile<kRows, 0>(inner, a, b, c, j, cols - j);
}

// C[rows][cols] += A[rows][inner] B[inner][cols]
static void add_product(int rows, int cols, int inner, ConstRows a, ConstRows b, Rows c) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) {
    product_rows<4>(cols, inner, {a.data + r * a.stride, a.stride}, b, {c.data + r * c.stride, c.stride});
  }
  for (; r < rows; r++) {
    product_rows<1>(cols, inner, {a.data + r * a.stride, a.stride}, b, {c.data + r * c.stride, c.stride});
  }
}

static void clear(Rows c, int rows, int cols) {
  for (int r = 0; r < rows; r++) {
    for (int j = 0; j < cols; j++) c.data[r * c.stride + j] = 0;
  }
}

// out[j][i] = in[i][j], in strips of one cache line so that each line of `in` is read once.
static void transpose(ConstRows in, int rows, int cols, Rows out) {
  constexpr int kStrip = 16;
  for (int j0 = 0; j0 < cols; j0 += kStrip) {
    const int j1 = j0 + kStrip < cols ? j0 + kStrip : cols;
    for (int i = 0; i < rows; i++) {
      for (int j = j0; j < j1; j++) out.data[j * out.stride + i] = in.data[i * in.stride + j];
    }
  }
}

// What a chunk computes with, in the caller's scratch. `l` is kDeltaChunk for all strides.
struct ChunkScratch {
  Rows state;   // [dk][dv], the transpose of DeltaArgs::state
  Rows keys;    // [dk][l], the transpose of the chunk's keys
  Rows inner;   // [l][l], k_t . k_s with its decay: what token t's key meets of token s's
  Rows scores;  // [l][l], q_t . k_s with its decay
  Rows values;  // [l][dv], the corrected values
};

static ChunkScratch chunk_scratch(const DeltaArgs& args) {
  const int64_t l = kDeltaChunk;
  float* state = args.scratch;
  float* keys = state + int64_t{args.dk} * args.dv;
  float* inner = keys + args.dk * l;
  float* scores = inner + l * l;
  float* values = scores + l * l;
  return {{state, args.dv}, {keys, l}, {inner, l}, {scores, l}, {values, args.dv}};
}

// The log-decays summed over the chunk. In double: the decay between two tokens is a difference of two sums, and in
// float32 that would lose the digits of a weak decay that follows a strong one. exp(-1e4) is 0, so the cut changes
// nothing but keeps -inf out of the differences.
static void sum_gates(const float* g, int64_t stride, int n, double* total) {
  double running = 0;
  for (int t = 0; t < n; t++) {
    const float gate = g[t * stride];
    running += gate < -1e4f ? -1e4 : static_cast<double>(gate);
    total[t] = running;
  }
}

// row[s] *= factor * exp(total[t] - total[s]) for s < n; n <= t + 1, so no exponent is above 0.
static void decay_row(float* row, int n, float factor, double now, const double* total) {
  float exponent[kDeltaChunk];
  for (int s = 0; s < n; s++) exponent[s] = static_cast<float>(now - total[s]);
  for (int s = 0; s < n; s += Vec::kLanes) {
    const Vec decay = Vec::set(factor) * exp(load_upto(exponent + s, n - s));
    store_upto(load_upto(row + s, n - s) * decay, row + s, n - s);
  }
}

// The lower triangle (and what shares its tiles) of decayed products of `rows` (queries or keys) with the keys. For the
// keys beta gives the factor of a row and the diagonal stays out; for queries beta is null.
static void decayed_products(ConstRows rows, const ChunkScratch& scratch, int n, int dk, const double* total,
                             const float* beta, int64_t beta_stride, Rows out) {
  constexpr int kTile = 16;
  clear(out, n, n);
  for (int t0 = 0; t0 < n; t0 += kTile) {
    const int t1 = t0 + kTile < n ? t0 + kTile : n;
    add_product(t1 - t0, t1, dk, {rows.data + t0 * rows.stride, rows.stride}, {scratch.keys.data, scratch.keys.stride},
                {out.data + t0 * out.stride, out.stride});
    for (int t = t0; t < t1; t++) {
      float* row = out.data + t * out.stride;
      const int visible = beta != nullptr ? t : t + 1;
      decay_row(row, visible, beta != nullptr ? beta[t * beta_stride] : 1.0f, total[t], total);
      for (int s = visible; s < t1; s++) row[s] = 0;
    }
  }
}

// values[t] = beta_t (v_t - exp(total_t) S^T k_t): each token's correction if it met only the state before the chunk.
static void start_values(const DeltaArgs& args, int64_t first, int n, const double* total,
                         const ChunkScratch& scratch) {
  clear(scratch.values, n, args.dv);
  add_product(n, args.dv, args.dk, {args.k + first * args.qk_stride, args.qk_stride},
              {scratch.state.data, scratch.state.stride}, scratch.values);
  for (int t = 0; t < n; t++) {
    const Vec beta = Vec::set(args.beta[(first + t) * args.gate_stride]);
    const Vec minus_decay = Vec::set(-exp(static_cast<float>(total[t])));
    const float* v = args.v + (first + t) * args.v_stride;
    float* row = scratch.values.data + t * scratch.values.stride;
    for (int j = 0; j < args.dv; j += Vec::kLanes) {
      const int left = args.dv - j;
      store_upto(beta * load_upto(v + j, left).fma(minus_decay, load_upto(row + j, left)), row + j, left);
    }
  }
}

// values = (I + inner)^-1 values by forward substitution: what earlier tokens of the chunk wrote is taken off.
static void solve_values(int n, int dv, const ChunkScratch& scratch) {
  constexpr int kVecs = 8;
  const int64_t stride = scratch.values.stride;
  for (int j = 0; j < dv; j += kVecs * Vec::kLanes) {
    float* column = scratch.values.data + j;
    const int width = dv - j < kVecs * Vec::kLanes ? dv - j : kVecs * Vec::kLanes;
    const int vecs = (width + Vec::kLanes - 1) / Vec::kLanes;
    for (int t = 1; t < n; t++) {
      const float* factor = scratch.inner.data + t * scratch.inner.stride;
      Vec acc[kVecs];
      for (int v = 0; v < vecs; v++) {
        acc[v] = load_upto(column + t * stride + v * Vec::kLanes, width - v * Vec::kLanes);
      }
      for (int s = 0; s < t; s++) {
        const Vec minus = Vec::set(-factor[s]);
        for (int v = 0; v < vecs; v++) {
          acc[v] = acc[v].fma(minus, load_upto(column + s * stride + v * Vec::kLanes, width - v * Vec::kLanes));
        }
      }
      for (int v = 0; v < vecs; v++) {
        store_upto(acc[v], column + t * stride + v * Vec::kLanes, width - v * Vec::kLanes);
      }
    }
  }
}

// o_t = exp(total_t) S^T q_t + sum_{s <= t} scores[t][s] values[s]
static void write_outputs(const DeltaArgs& args, int64_t first, int n, const double* total,
                          const ChunkScratch& scratch) {
  constexpr int kTile = 16;
  const Rows out = {args.o + first * args.o_stride, args.o_stride};
  clear(out, n, args.dv);
  add_product(n, args.dv, args.dk, {args.q + first * args.qk_stride, args.qk_stride},
              {scratch.state.data, scratch.state.stride}, out);
  for (int t = 0; t < n; t++) {
    const float decay = exp(static_cast<float>(total[t]));
    for (int j = 0; j < args.dv; j++) out.data[t * out.stride + j] *= decay;
  }
  for (int t = 0; t < n; t += kTile) {
    const int end = t + kTile < n ? t + kTile : n;
    add_product(end - t, args.dv, end, {scratch.scores.data + t * scratch.scores.stride, scratch.scores.stride},
                {scratch.values.data, scratch.values.stride}, {out.data + t * out.stride, out.stride});
  }
}

// S = exp(total_last) S + sum_s exp(total_last - total_s) k_s values[s]^T. Overwrites values.
static void advance_state(const DeltaArgs& args, int n, const double* total, const ChunkScratch& scratch) {
  const double end = total[n - 1];
  for (int s = 0; s < n; s++) {
    const float decay = exp(static_cast<float>(end - total[s]));
    for (int j = 0; j < args.dv; j++) scratch.values.data[s * scratch.values.stride + j] *= decay;
  }
  const float decay = exp(static_cast<float>(end));
  const int64_t size = int64_t{args.dk} * args.dv;
  for (int64_t i = 0; i < size; i++) scratch.state.data[i] *= decay;
  add_product(args.dk, args.dv, n, {scratch.keys.data, scratch.keys.stride},
              {scratch.values.data, scratch.values.stride}, scratch.state);
}

static void delta_chunk(const DeltaArgs& args) {
  const ChunkScratch scratch = chunk_scratch(args);
  transpose({args.state, args.dk}, args.dv, args.dk, scratch.state);
  for (int64_t first = 0; first < args.n_tokens; first += kDeltaChunk) {
    const int64_t left = args.n_tokens - first;
    const int n = left < kDeltaChunk ? static_cast<int>(left) : kDeltaChunk;
    const ConstRows q = {args.q + first * args.qk_stride, args.qk_stride};
    const ConstRows k = {args.k + first * args.qk_stride, args.qk_stride};
    double total[kDeltaChunk];
    sum_gates(args.g + first * args.gate_stride, args.gate_stride, n, total);
    transpose(k, n, args.dk, scratch.keys);
    decayed_products(k, scratch, n, args.dk, total, args.beta + first * args.gate_stride, args.gate_stride,
                     scratch.inner);
    decayed_products(q, scratch, n, args.dk, total, nullptr, 0, scratch.scores);
    start_values(args, first, n, total, scratch);
    solve_values(n, args.dv, scratch);
    write_outputs(args, first, n, total, scratch);
    advance_state(args, n, total, scratch);
  }
  transpose({scratch.state.data, scratch.state.stride}, args.dk, args.dv, {args.state, args.dk});
}

}  // namespace strata::kernels::STRATA_ISA_NS
