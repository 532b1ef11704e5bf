// The plain form of every kernel, the oracle of the tests: contiguous float32 inputs, all arithmetic and all outputs in
// double, no blocking and no tricks. Formulas are those of kernels.h. (Packed weights and cache elements have their
// oracle in quant: TypeInfo::decode, f32_to_f16.)
#pragma once

#include <cstdint>

namespace strata::kernels::ref {

// y[t*rows + r] = sum_c w[r*cols + c] * x[t*cols + c], with decoded weights
void matmul(const float* w, int64_t rows, int64_t cols, const float* x, int64_t n_tokens, double* y);
double dot(const float* a, const float* b, int64_t n);
// out[i] = y[i] + a * x[i]
void axpy(float a, const float* x, const float* y, double* out, int64_t n);

void rms_norm(const float* x, const float* gain, double* y, int64_t n, double eps);
void l2_norm(const float* x, double* y, int64_t n, double eps, double scale);
// out: the 2*n_pairs rotated values
void rope(const float* x, const float* cos, const float* sin, double* out, int n_pairs, bool interleaved);

double sigmoid(double x);
double silu(double x);
void silu_mul(const float* gate, const float* up, double* out, int64_t n);
void swiglu_clamped(const float* gate, const float* up, double* out, int64_t n, double alpha, double limit);
void sigmoid_mul(const float* x, const float* gate, double* out, int64_t n);
void silu_gate(const float* x, const float* gate, double* out, int64_t n);

// One query head over n gathered keys and values: keys [n][head_dim], values [n][value_dim], out [value_dim].
// sink: one more logit without a value, or null.
struct Attention {
  const float* q;
  const float* keys;
  const float* values;
  int64_t n;
  int head_dim, value_dim;
  double scale;
  const float* sink;
};
void attention(const Attention& args, double* out);

// state [n_channels][kernel - 1], advanced by x
void conv_step(const float* x, const float* w, float* state, double* y, int64_t n_channels, int kernel);

// The recurrence of the gated delta rule. q, k [n][dk]; v, o [n][dv]; g, beta [n]; state [dv][dk], read and written.
struct Delta {
  const float* q;
  const float* k;
  const float* v;
  const float* g;
  const float* beta;
  int64_t n_tokens;
  int dk, dv;
};
void delta(const Delta& args, double* state, double* o);

}  // namespace strata::kernels::ref
