#include <algorithm>
#include <cstring>

#include "device/host/host_ops.h"
#include "device/host/rounded.h"

namespace strata::device::host {
namespace {

kernels::ActFormat act_format(const HeadMatMul& op) { return kernels::act_format(op.w.type); }

// The matrix of a head, or `count` of its rows from `first` on.
kernels::Matrix matrix_of(const HeadMatMul& op, int64_t head, int64_t first, int64_t count) {
  kernels::Matrix w = op.w.matrix();
  w.data += static_cast<size_t>(head * op.head_rows() + first) * w.row_bytes;
  w.rows = count;
  return w;
}
const float* inputs_of(const HeadMatMul& op, int64_t row, int64_t head) {
  return op.x.row(row) + head * op.x_head_stride();
}
float* outputs_of(const HeadMatMul& op, int64_t row, int64_t head) {
  return op.y.row(row) + head * op.y_head_stride();
}

// Calls body(head, first, count, worker) for pieces of the `n` rows that each head has, shared out over the pool. A
// piece has `least` or more, and as many as let a thread have several.
template <class Body>
void for_each_piece(Compute& compute, int64_t n_heads, int64_t n, int64_t least, const Body& body) {
  const int64_t size = std::min(n, (compute.grain(n_heads * n, least) + least - 1) / least * least);
  const int64_t per_head = (n + size - 1) / size;
  compute.pool().for_each(n_heads * per_head, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t first = i % per_head * size;
      body(i / per_head, first, std::min(size, n - first), worker);
    }
  });
}

void run_exact(const HeadMatMul& op, Compute& compute) {
  const int64_t n_tokens = op.live.data()[0];
  for_each_piece(compute, op.n_heads, op.head_rows(), kRowGrain,
                 [&](int64_t head, int64_t first, int64_t count, int worker) {
                   float* scratch = compute.scratch(worker, matmul_scratch(op.w.cols));
                   const kernels::Matrix w = matrix_of(op, head, first, count);
                   for (int64_t t = 0; t < n_tokens; t += kTokenTile) {
                     compute.kernels().matmul(w, 0, count, inputs_of(op, t, head), op.x.stride,
                                              std::min(kTokenTile, n_tokens - t), outputs_of(op, t, head) + first,
                                              op.y.stride, scratch);
                   }
                 });
}

// Rows of weights that an input is rounded for at the least: rounding it costs about as much as a few of them.
constexpr int64_t kRoundedPiece = 128;

int64_t rounded_floats(const HeadMatMul& op) {
  return static_cast<int64_t>(rounded_bytes(act_format(op), op.w.cols, op.x.rows) / sizeof(float));
}

// A head's inputs are rounded by whoever multiplies them.
void run_rounded(const HeadMatMul& op, Compute& compute) {
  const int64_t n_tokens = op.live.data()[0];
  const bool tiles = in_tiles(compute.kernels(), n_tokens);
  const kernels::ActFormat format = act_format(op);
  for_each_piece(compute, op.n_heads, op.head_rows(), kRoundedPiece,
                 [&](int64_t head, int64_t first, int64_t count, int worker) {
                   float* scratch = compute.scratch(worker, scratch_floats(op));
                   auto* rounded = reinterpret_cast<uint8_t*>(scratch + rounding_scratch(format, op.w.cols));
                   const FloatRows x{inputs_of(op, 0, head), op.x.stride};
                   for (int64_t t = 0; t < n_tokens; t += kernels::kTileRows) {
                     round_some(compute.kernels(), format, x.from(t), op.w.cols,
                                std::min<int64_t>(kernels::kTileRows, n_tokens - t), tiles,
                                rounded + rounded_offset(format, op.w.cols, tiles, t), scratch);
                   }
                   compute.kernels().matmul_q8(matrix_of(op, head, first, count), 0, count, rounded, n_tokens, tiles,
                                               {outputs_of(op, 0, head) + first, op.y.stride}, scratch);
                 });
}

// y = sum over the rows of the head's matrix, in their order, of input times row. A row is decoded once for the tokens
// of a piece.
void run_transposed(const HeadMatMul& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const auto cols = static_cast<size_t>(op.w.cols);
  const auto add_head = [&](int64_t head, int64_t first, int64_t count, int worker) {
    float* row = compute.scratch(worker, op.w.cols);
    for (int64_t t = first; t < first + count; t++) std::memset(outputs_of(op, t, head), 0, cols * sizeof(float));
    for (int64_t i = 0; i < op.head_rows(); i++) {
      kernel.decode(op.w.type, matrix_of(op, head, i, 1).data, row, cols);
      for (int64_t t = first; t < first + count; t++) {
        kernel.axpy(inputs_of(op, t, head)[i], row, outputs_of(op, t, head), op.w.cols);
      }
    }
  };
  for (int64_t t = 0; t < op.live.data()[0]; t += kTokenTile) {
    const int64_t n = std::min(kTokenTile, op.live.data()[0] - t);
    compute.pool().for_each(op.n_heads, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t head = begin; head < end; head++) add_head(head, t, n, worker);
    });
  }
}

}  // namespace

int64_t scratch_floats(const HeadMatMul& op) {
  if (op.w.rounding == Rounding::kNone) return matmul_scratch(op.w.cols);
  return rounding_scratch(act_format(op), op.w.cols) + rounded_floats(op);
}

void run(const HeadMatMul& op, Compute& compute) {
  if (op.live.data()[0] == 0) return;
  if (op.transposed) return run_transposed(op, compute);
  if (op.w.rounding == Rounding::kOnce) return run_rounded(op, compute);
  run_exact(op, compute);
}

namespace {

void append_row(const LatentAttend& op, int64_t r, const kernels::Kernels& kernel) {
  const int n_pairs = op.n_rot() / 2;
  const float* cos = op.cos_sin.row(r);
  const auto turn = [&](float* x) { kernel.rope(x, cos, cos + n_pairs, n_pairs, true); };
  float* latent = op.latent.row(r);
  kernel.rms_norm(latent, op.gain.data(), latent, op.kv.value_dim, op.eps);
  turn(latent + op.kv.value_dim);
  for (int h = 0; h < op.n_heads; h++) {
    float* query = op.q.row(r) + int64_t{h} * op.kv.key_dim + op.kv.value_dim;
    std::memcpy(query, op.heads.row(r) + (h + 1) * op.head_stride() - op.n_rot(),
                static_cast<size_t>(op.n_rot()) * sizeof(float));
    turn(query);
  }
  const int64_t position = op.rows.positions.data()[r];
  const int64_t block = op.rows.block_table.row(op.rows.slots.data()[r])[position / op.kv.block_tokens];
  const auto token = static_cast<size_t>(block * op.kv.block_tokens + position % op.kv.block_tokens);
  auto* place = reinterpret_cast<uint8_t*>(op.kv.k->address()) + token * op.kv.token_bytes();
  kernel.kv_store(op.kv.type, latent, place, op.kv.key_dim);
}

// What is left when the row is in the cache.
Attention attention_of(const LatentAttend& op) {
  return {.q = View<float>(op.q),
          .sinks = {},
          .rows = op.rows,
          .kv = op.kv,
          .y = op.y,
          .n_heads = op.n_heads,
          .q_head_stride = op.kv.key_dim,
          .scale = op.scale};
}

}  // namespace

int64_t scratch_floats(const LatentAttend& op) { return scratch_floats(attention_of(op)); }

void run(const LatentAttend& op, Compute& compute) {
  compute.pool().for_each(op.rows.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) append_row(op, r, compute.kernels());
  });
  run(attention_of(op), compute);
}

}  // namespace strata::device::host
