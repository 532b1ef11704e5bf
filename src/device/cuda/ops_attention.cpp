// Rope, the append to the KV cache and attention on a CUDA device.
#include "device/cuda/ops_attention.h"

#include "device/cuda/ops_maps.h"
#include "kernels/cuda/attention.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

void run(const RopeAngles& op, const OpContext& context) {
  kernel::launch_angles({.positions = op.positions.data(),
                         .inv_freq = op.inv_freq.data(),
                         .cos_sin = op.cos_sin.data(),
                         .cos_sin_stride = op.cos_sin.stride,
                         .n_pairs = static_cast<int>(op.inv_freq.cols),
                         .magnitude = op.magnitude},
                        {op.live.data(), op.cos_sin.rows}, context.stream);
}

namespace {

kernel::AttendArgs args_of(const Attention& op) {
  return {.q = op.q.data(),
          .q_stride = op.q.stride,
          .q_head_stride = op.q_head_stride,
          .n_heads = op.n_heads,
          .sinks = op.sinks.empty() ? nullptr : op.sinks.data(),
          .gated = op.gated,
          .window = op.window,
          .scale = op.scale,
          .places = places_of(op.rows),
          .kv = cache_of(op.kv),
          .y = op.y.data(),
          .y_stride = op.y.stride};
}

bool on_tensor_cores(const Attention& op, const OpContext& context) {
  return kernel::attend_mma_fits(args_of(op), context.compute_capability, context.max_shared_bytes);
}

kernel::AppendArgs args_of(const RopeAppend& op) {
  return {.q = op.q.data(),
          .q_stride = op.q.stride,
          .q_head_stride = op.q_head_stride,
          .n_heads = op.n_heads,
          .k = op.k.data(),
          .k_stride = op.k.stride,
          .v = op.v.data(),
          .v_stride = op.v.stride,
          .q_norm = op.q_norm.empty() ? nullptr : op.q_norm.data(),
          .k_norm = op.k_norm.empty() ? nullptr : op.k_norm.data(),
          .cos_sin = op.cos_sin.data(),
          .cos_sin_stride = op.cos_sin.stride,
          .n_pairs = static_cast<int>(op.cos_sin.cols / 2),
          .interleaved = op.interleaved,
          .eps = op.eps,
          .places = places_of(op.rows),
          .kv = cache_of(op.kv)};
}

}  // namespace

bool attends_in_tiles(const Attention& op, const OpContext& context) {
  return !context.deterministic && op.q.rows >= kPromptRows &&
         (on_tensor_cores(op, context) || kernel::attend_tiles_fit(args_of(op), context.max_shared_bytes));
}

void attend_in_tiles(const Attention& op, int64_t before, const OpContext& context) {
  const kernel::LiveRows rows{op.rows.live.data(), op.q.rows};
  kernel::AttendArgs args = args_of(op);
  args.before = before;
  if (on_tensor_cores(op, context)) return kernel::launch_attend_mma(args, rows, context.stream);
  kernel::launch_attend_tiles(args, rows, context.stream);
}

void run(const RopeAppend& op, const OpContext& context) {
  kernel::launch_append(args_of(op), {op.rows.live.data(), op.q.rows}, context.stream);
}

size_t workspace_bytes(const Attention& op, const OpContext& context) {
  return attends_in_tiles(op, context) ? 0 : kernel::attend_spans_workspace(args_of(op), op.q.rows);
}

void run(const Attention& op, const OpContext& context) {
  if (attends_in_tiles(op, context)) return attend_in_tiles(op, INT64_MAX, context);
  kernel::launch_attend_spans(args_of(op), {op.rows.live.data(), op.q.rows}, context.workspace, context.stream);
}

size_t workspace_bytes(const AppendAttend& op, const OpContext& context) {
  return workspace_bytes(op.attention(), context);
}

void run(const AppendAttend& op, const OpContext& context) {
  const Attention attention = op.attention();
  const kernel::LiveRows rows{op.append.rows.live.data(), op.y.rows};
  const kernel::AppendArgs append = args_of(op.append);
  // A row's bits are to be the same in a step of many rows, which one kernel does not serve.
  if (context.deterministic || !kernel::appends_and_attends(args_of(attention), append.n_pairs, rows)) {
    run(op.append, context);
    return run(attention, context);
  }
  kernel::launch_append_attend(append, args_of(attention), {op.arrivals.data(), op.arrivals.stride}, rows,
                               context.workspace, context.stream);
}

}  // namespace strata::device::cuda
