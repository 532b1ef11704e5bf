#include <algorithm>
#include <cmath>

#include "device/host/host_ops.h"
#include "device/host/segment.h"

namespace strata::device::host {
namespace {

// Channels that a worker takes at once: enough to keep a vector unit busy, few enough to share out.
constexpr int64_t kConvChannels = 256;

}  // namespace

void run(const DeltaConv& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t channels = op.shape.channels();
  const int taps = op.shape.kernel;
  const int64_t pieces = (channels + kConvChannels - 1) / kConvChannels;
  const int64_t n_segments = op.segments.n_segments.data()[0];
  compute.pool().for_each(n_segments * pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; item++) {
      const Segment s = segment(op.segments, item / pieces);
      const int64_t c = item % pieces * kConvChannels;
      const int64_t n = std::min(kConvChannels, channels - c);
      for (int64_t r = s.first; r < s.first + s.rows; r++) {
        kernel.conv_step(op.x.row(r) + c, op.taps.data() + c * taps, op.conv_state.row(s.slot) + c * (taps - 1),
                         op.y.row(r) + c, n, taps);
      }
    }
  });
  const int heads = op.shape.n_key_heads;
  const int dim = op.shape.key_dim;
  const float q_scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (int64_t i = 0; i < n_segments; i++) {
    const Segment s = segment(op.segments, i);
    compute.pool().for_each(s.rows, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = s.first + begin; r < s.first + end; r++) {
        float* q = op.y.row(r);
        float* k = q + int64_t{heads} * dim;
        for (int h = 0; h < heads; h++) {
          kernel.l2_norm(q + h * dim, q + h * dim, dim, op.eps, q_scale);
          kernel.l2_norm(k + h * dim, k + h * dim, dim, op.eps, 1.0f);
        }
      }
    });
  }
}

void run(const DeltaGates& op, Compute&) {
  const int64_t heads = op.dt_bias.cols;
  const int64_t per_key = heads / op.n_key_heads;
  for (int64_t r = 0; r < op.live.data()[0]; r++) {
    const float* ba = op.ba.row(r);
    float* g = op.g_beta.row(r);
    float* beta = g + heads;
    for (int64_t h = 0; h < heads; h++) {
      const int64_t b_at = op.grouped ? h / per_key * 2 * per_key + h % per_key : h;
      const int64_t a_at = op.grouped ? b_at + per_key : heads + h;
      const float a = ba[a_at] + op.dt_bias.data()[h];
      const float softplus = a > 20.0f ? a : std::log1p(std::exp(a));
      g[h] = softplus * op.decay.data()[h];
      beta[h] = 1.0f / (1.0f + std::exp(-ba[b_at]));
    }
  }
}

int64_t scratch_floats(const DeltaNet& op) { return kernels::delta_scratch(op.shape.key_dim, op.shape.value_dim); }

void run(const DeltaNet& op, Compute& compute) {
  const DeltaShape& shape = op.shape;
  const int64_t heads = shape.n_value_heads;
  const int64_t n_items = op.segments.n_segments.data()[0] * heads;
  compute.pool().for_each(n_items, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t item = begin; item < end; item++) {
      const Segment s = segment(op.segments, item / heads);
      const int64_t h = item % heads;
      const int64_t key_head = shape.tiled ? h % shape.n_key_heads : h / (heads / shape.n_key_heads);
      const float* row = op.qkv.row(s.first);
      kernels::DeltaArgs args{};
      args.q = row + key_head * shape.key_dim;
      args.k = row + (shape.n_key_heads + key_head) * shape.key_dim;
      args.v = row + 2 * int64_t{shape.n_key_heads} * shape.key_dim + h * shape.value_dim;
      args.g = op.g_beta.row(s.first) + h;
      args.beta = args.g + heads;
      args.o = op.y.row(s.first) + h * shape.value_dim;
      args.qk_stride = args.v_stride = op.qkv.stride;
      args.gate_stride = op.g_beta.stride;
      args.o_stride = op.y.stride;
      args.dk = shape.key_dim;
      args.dv = shape.value_dim;
      args.n_tokens = s.rows;
      args.state = op.state.row(s.slot) + h * shape.value_dim * shape.key_dim;
      args.scratch = compute.scratch(worker, scratch_floats(op));
      const bool chunked = op.chunk_min_rows > 0 && s.rows >= op.chunk_min_rows;
      (chunked ? compute.kernels().delta_chunk : compute.kernels().delta_step)(args);
    }
  });
}

void run(const GatedNorm& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t dim = op.gain.cols;
  compute.pool().for_each(op.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* x = op.x.row(r);
      for (int64_t i = 0; i < op.x.cols; i += dim) kernel.rms_norm(x + i, op.gain.data(), x + i, dim, op.eps);
      (op.sigmoid_gate ? kernel.sigmoid_mul : kernel.silu_gate)(x, op.z.row(r), op.x.cols);
    }
  });
}

}  // namespace strata::device::host
