#include "kernels/ref/ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace strata::kernels::ref {

double dot(const float* a, const float* b, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += double{a[i]} * b[i];
  return total;
}

void matmul(const float* w, int64_t rows, int64_t cols, const float* x, int64_t n_tokens, double* y) {
  for (int64_t t = 0; t < n_tokens; t++) {
    for (int64_t r = 0; r < rows; r++) y[t * rows + r] = dot(w + r * cols, x + t * cols, cols);
  }
}

void axpy(float a, const float* x, const float* y, double* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = y[i] + double{a} * x[i];
}

void rms_norm(const float* x, const float* gain, double* y, int64_t n, double eps) {
  const double root = std::sqrt(dot(x, x, n) / static_cast<double>(n) + eps);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] / root * (gain != nullptr ? gain[i] : 1.0f);
}

void l2_norm(const float* x, double* y, int64_t n, double eps, double scale) {
  const double root = std::sqrt(dot(x, x, n) + eps);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] / root * scale;
}

void rope(const float* x, const float* cos, const float* sin, double* out, int n_pairs, bool interleaved) {
  for (int p = 0; p < n_pairs; p++) {
    const int first = interleaved ? 2 * p : p;
    const int second = interleaved ? 2 * p + 1 : p + n_pairs;
    out[first] = double{x[first]} * cos[p] - double{x[second]} * sin[p];
    out[second] = double{x[first]} * sin[p] + double{x[second]} * cos[p];
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }

void silu_mul(const float* gate, const float* up, double* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = silu(gate[i]) * up[i];
}

void swiglu_clamped(const float* gate, const float* up, double* out, int64_t n, double alpha, double limit) {
  for (int64_t i = 0; i < n; i++) {
    const double g = std::min<double>(gate[i], limit);
    const double u = std::clamp<double>(up[i], -limit, limit);
    out[i] = g * sigmoid(alpha * g) * (u + 1);
  }
}

void sigmoid_mul(const float* x, const float* gate, double* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * sigmoid(gate[i]);
}

void silu_gate(const float* x, const float* gate, double* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * silu(gate[i]);
}

void attention(const Attention& args, double* out) {
  std::vector<double> p(static_cast<size_t>(args.n));
  double maximum = args.sink != nullptr ? *args.sink : -HUGE_VAL;
  for (int64_t t = 0; t < args.n; t++) {
    double& score = p[static_cast<size_t>(t)];
    score = args.scale * dot(args.q, args.keys + t * args.head_dim, args.head_dim);
    maximum = std::max(maximum, score);
  }
  double total = args.sink != nullptr ? std::exp(*args.sink - maximum) : 0;
  for (double& value : p) total += value = std::exp(value - maximum);
  for (int d = 0; d < args.value_dim; d++) {
    double sum = 0;
    for (int64_t t = 0; t < args.n; t++) sum += p[static_cast<size_t>(t)] * args.values[t * args.value_dim + d];
    out[d] = sum / total;
  }
}

void conv_step(const float* x, const float* w, float* state, double* y, int64_t n_channels, int kernel) {
  for (int64_t c = 0; c < n_channels; c++) {
    std::vector<float> column(state + c * (kernel - 1), state + (c + 1) * (kernel - 1));
    column.push_back(x[c]);
    y[c] = silu(dot(w + c * kernel, column.data(), kernel));
    std::copy(column.begin() + 1, column.end(), state + c * (kernel - 1));
  }
}

void delta(const Delta& args, double* state, double* o) {
  for (int64_t t = 0; t < args.n_tokens; t++) {
    const float* q = args.q + t * args.dk;
    const float* k = args.k + t * args.dk;
    const double decay = std::exp(double{args.g[t]});
    for (int j = 0; j < args.dv; j++) {
      double* row = state + int64_t{j} * args.dk;
      double recalled = 0;
      for (int i = 0; i < args.dk; i++) {
        row[i] *= decay;
        recalled += row[i] * k[i];
      }
      const double error = args.beta[t] * (args.v[t * args.dv + j] - recalled);
      double answer = 0;
      for (int i = 0; i < args.dk; i++) {
        row[i] += error * k[i];
        answer += row[i] * q[i];
      }
      o[t * args.dv + j] = answer;
    }
  }
}

}  // namespace strata::kernels::ref
