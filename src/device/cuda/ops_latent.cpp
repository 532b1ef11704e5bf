// Latent attention on a CUDA device.
#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_maps.h"
#include "kernels/cuda/latent.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

// Inputs are multiplied as they are, whatever rounding the weight allows: what these products cost is their weights.
void run(const HeadMatMul& op, const OpContext& context) {
  const kernels::Matrix w = op.w.matrix();
  kernel::launch_head_products({.type = w.type,
                                .w = w.data,
                                .row_bytes = w.row_bytes,
                                .cols = w.cols,
                                .head_rows = op.head_rows(),
                                .n_heads = op.n_heads,
                                .transposed = op.transposed,
                                .x = op.x.data(),
                                .x_stride = op.x.stride,
                                .x_head_stride = op.x_head_stride(),
                                .y = op.y.data(),
                                .y_stride = op.y.stride,
                                .y_head_stride = op.y_head_stride()},
                               {op.live.data(), op.x.rows}, context.stream);
}

namespace {

// What is left when the rows are in the cache.
kernel::AttendArgs attention_of(const LatentAttend& op) {
  return {.q = op.q.data(),
          .q_stride = op.q.stride,
          .q_head_stride = op.kv.key_dim,
          .n_heads = op.n_heads,
          .sinks = nullptr,
          .gated = false,
          .window = 0,
          .scale = op.scale,
          .places = places_of(op.rows),
          .kv = cache_of(op.kv),
          .y = op.y.data(),
          .y_stride = op.y.stride};
}

bool row_by_row(const LatentAttend& op, const OpContext& context) {
  return !context.deterministic &&
         kernel::attend_rows_fits(attention_of(op), context.compute_capability, context.max_shared_bytes);
}

}  // namespace

size_t workspace_bytes(const LatentAttend& op, const OpContext& context) {
  const kernel::AttendArgs args = attention_of(op);
  if (row_by_row(op, context)) return kernel::attend_rows_workspace(args, op.q.rows, context.n_sms);
  return kernel::attend_spans_workspace(args, op.q.rows);
}

void run(const LatentAttend& op, const OpContext& context) {
  const kernel::LiveRows rows{op.rows.live.data(), op.q.rows};
  kernel::launch_latent_append({.heads = op.heads.data(),
                                .heads_stride = op.heads.stride,
                                .head_stride = op.head_stride(),
                                .q = op.q.data(),
                                .q_stride = op.q.stride,
                                .n_heads = op.n_heads,
                                .latent = op.latent.data(),
                                .latent_stride = op.latent.stride,
                                .gain = op.gain.data(),
                                .cos_sin = op.cos_sin.data(),
                                .cos_sin_stride = op.cos_sin.stride,
                                .eps = op.eps,
                                .places = places_of(op.rows),
                                .kv = cache_of(op.kv)},
                               rows, context.stream);
  const kernel::AttendArgs args = attention_of(op);
  if (row_by_row(op, context)) {
    return kernel::launch_attend_rows(args, rows, context.n_sms, context.workspace, context.stream);
  }
  kernel::launch_attend_spans(args, rows, context.workspace, context.stream);
}

}  // namespace strata::device::cuda
