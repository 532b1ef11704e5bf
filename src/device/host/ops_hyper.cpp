#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/host/host_ops.h"

namespace strata::device::host {
namespace {

// Columns of a stream that a thread mixes at once: a single row is worth sharing out too.
constexpr int64_t kMixColumns = 512;

// u = silu(low / C), in place; the row of `gates`, which is written later, holds a copy meanwhile.
void activate_low(const HyperMix& op, Compute& compute) {
  const float streams = static_cast<float>(op.n_streams);
  compute.pool().for_each(op.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* low = op.low.row(r);
      for (int64_t i = 0; i < op.low.cols; i++) low[i] /= streams;
      std::memcpy(op.gates.row(r), low, static_cast<size_t>(op.low.cols) * sizeof(float));
      compute.kernels().sigmoid_mul(low, op.gates.row(r), op.low.cols);
    }
  });
}

void mix_streams(const HyperMix& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t dim = op.y.cols;
  const int64_t pieces = (dim + kMixColumns - 1) / kMixColumns;
  const float share = 1.0f / static_cast<float>(op.n_streams);
  compute.pool().for_each(op.live.data()[0] * pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t r = item / pieces;
      const int64_t first = item % pieces * kMixColumns;
      const int64_t n = std::min(kMixColumns, dim - first);
      float* y = op.y.row(r) + first;
      std::fill_n(y, n, 0.0f);
      for (int64_t at = first; at < op.x.cols; at += dim) {
        float* part = op.normed.row(r) + at;
        kernel.sigmoid_mul(part, op.gates.row(r) + at, n);
        kernel.axpy(share, part, y, n);
      }
    }
  });
}

void finish_amounts(const HyperMix& op) {
  const float streams = static_cast<float>(op.n_streams);
  for (int64_t r = 0; r < op.live.data()[0]; r++) {
    float* amounts = op.amounts.row(r);
    for (int64_t c = 0; c < op.amounts.cols; c++) amounts[c] = 2.0f / (1.0f + std::exp(-amounts[c] / streams));
  }
}

}  // namespace

int64_t scratch_floats(const HyperMix& op) {
  int64_t most = std::max(scratch_floats(op.down_product()), scratch_floats(op.up_product()));
  if (!op.inject.empty()) most = std::max(most, scratch_floats(op.inject_product()));
  return most;
}

void run(const HyperMix& op, Compute& compute) {
  const int64_t dim = op.y.cols;
  compute.pool().for_each(op.live.data()[0] * op.n_streams, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t r = item / op.n_streams;
      const int64_t at = item % op.n_streams * dim;
      compute.kernels().rms_norm(op.x.row(r) + at, op.gain.data() + at, op.normed.row(r) + at, dim, op.eps);
    }
  });
  run(op.down_product(), compute);
  if (!op.inject.empty()) {
    run(op.inject_product(), compute);
    finish_amounts(op);
  }
  activate_low(op, compute);
  run(op.up_product(), compute);
  mix_streams(op, compute);
}

void run(const HyperAdd& op, Compute& compute) {
  const int64_t dim = op.y.cols;
  compute.pool().for_each(op.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* y = op.y.row(r);
      for (int64_t c = 0; c < op.amounts.cols; c++) {
        compute.kernels().axpy(op.amounts.row(r)[c], y, op.x.row(r) + c * dim, dim);
      }
      std::fill_n(y, dim, 0.0f);
    }
  });
}

}  // namespace strata::device::host
