#include <algorithm>
#include <cmath>

#include "device/host/host_ops.h"
#include "device/host/segment.h"

namespace strata::device::host {
namespace {

// Below this a score counts as this much.
constexpr float kLeastScore = 1e-6f;

float gate_of(float score) {
  if (score == 0) return 0.5f;
  const float t = std::copysign(std::sqrt(std::max(std::abs(score), kLeastScore)), score);
  return 1.0f / (1.0f + std::exp(-t));
}

// Channels that a worker takes at once.
constexpr int64_t kChannels = 256;

// A run of channels of one segment.
struct ConvPiece {
  const DistantConv& op;
  Segment segment;
  int64_t channel, n;
  int64_t position;  // of the segment's first row

  // y of `back` tokens before row `i` of the segment.
  const float* y(int64_t i, int64_t back) const {
    if (back <= i) return op.y.row(segment.first + i - back) + channel;
    const int64_t at = position + i - back;
    return at < 0 ? nullptr : history(at);
  }
  float* history(int64_t at) const {
    return op.history.row(segment.slot) + at % op.depth() * op.x.cols + channel;
  }

  void row(int64_t i, const kernels::Kernels& kernel) const {
    float sum[kChannels] = {};
    for (int j = 0; j < op.kernel; j++) {
      const float* from = y(i, int64_t{op.kernel - 1 - j} * op.distance);
      if (from == nullptr) continue;
      const float* taps = op.taps.data() + channel * op.kernel + j;
      for (int64_t c = 0; c < n; c++) sum[c] += taps[c * op.kernel] * from[c];
    }
    float ones[kChannels];
    std::fill_n(ones, n, 1.0f);
    kernel.silu_mul(sum, ones, sum, n);
    const float* add = op.add.row(segment.first + i) + channel;
    float* x = op.x.row(segment.first + i) + channel;
    for (int64_t c = 0; c < n; c++) x[c] += add[c] + sum[c];
  }

  void keep() const {
    for (int64_t i = std::max<int64_t>(0, segment.rows - op.depth()); i < segment.rows; i++) {
      std::copy_n(op.y.row(segment.first + i) + channel, n, history(position + i));
    }
  }
};

}  // namespace

int64_t scratch_floats(const StreamGate& op) { return 2 * op.value.cols; }

void run(const StreamGate& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t dim = op.value.cols;
  const int64_t n_streams = op.x.cols / dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  compute.pool().for_each(op.live.data()[0] * n_streams, 1, [&](int64_t begin, int64_t end, int worker) {
    float* normed_key = compute.scratch(worker, scratch_floats(op));
    float* normed_x = normed_key + dim;
    for (int64_t item = begin; item < end; item++) {
      const int64_t r = item / n_streams, at = item % n_streams * dim;
      float* gated = op.key.row(r) + at;
      kernel.rms_norm(gated, op.key_gain.data() + at, normed_key, dim, op.eps);
      kernel.rms_norm(op.x.row(r) + at, op.query_gain.data() + at, normed_x, dim, op.eps);
      const float gate = gate_of(kernel.dot(normed_key, normed_x, dim) * scale);
      const float* value = op.value.row(r);
      for (int64_t i = 0; i < dim; i++) gated[i] = gate * value[i];
      kernel.rms_norm(gated, op.out_gain.data() + at, op.normed.row(r) + at, dim, op.eps);
    }
  });
}

void run(const DistantConv& op, Compute& compute) {
  const int64_t channels = op.x.cols;
  const int64_t pieces = (channels + kChannels - 1) / kChannels;
  const int64_t n_segments = op.segments.n_segments.data()[0];
  compute.pool().for_each(n_segments * pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; item++) {
      const Segment s = segment(op.segments, item / pieces);
      const int64_t channel = item % pieces * kChannels;
      const ConvPiece piece{op, s, channel, std::min(kChannels, channels - channel), op.positions.data()[s.first]};
      for (int64_t i = 0; i < s.rows; i++) piece.row(i, compute.kernels());
      piece.keep();
    }
  });
}

}  // namespace strata::device::host
