// Rope, the append to the KV cache and attention on a CUDA device.
#include "device/cuda/cuda_ops.h"
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

kernel::Places places_of(const RowMap& rows) {
  return {.positions = rows.positions.data(),
          .slots = rows.slots.data(),
          .block_table = rows.block_table.data(),
          .table_stride = rows.block_table.stride,
          .max_blocks = rows.block_table.cols};
}

kernel::KvCache cache_of(const KvBlocks& kv) {
  return {.k = reinterpret_cast<uint8_t*>(kv.k->address()),
          .v = reinterpret_cast<uint8_t*>(kv.v->address()),
          .type = kv.type,
          .block_tokens = kv.block_tokens,
          .n_kv_heads = kv.n_kv_heads,
          .key_dim = kv.key_dim,
          .value_dim = kv.value_dim,
          .k_token_bytes = kv.k_token_bytes(),
          .v_token_bytes = kv.v_token_bytes(),
          .k_head_bytes = kernels::kv_bytes(kv.type, kv.key_dim),
          .v_head_bytes = kernels::kv_bytes(kv.type, kv.value_dim)};
}

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

// From this many rows on they are likely to be a prompt's.
constexpr int64_t kTiledRows = 17;

bool on_tensor_cores(const Attention& op, const OpContext& context) {
  return kernel::attend_mma_fits(args_of(op), context.compute_capability, context.max_shared_bytes);
}
bool tiled(const Attention& op, const OpContext& context) {
  return !context.deterministic && op.q.rows >= kTiledRows &&
         (on_tensor_cores(op, context) || kernel::attend_tiles_fit(args_of(op), context.max_shared_bytes));
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

void run(const RopeAppend& op, const OpContext& context) {
  kernel::launch_append(args_of(op), {op.rows.live.data(), op.q.rows}, context.stream);
}

size_t workspace_bytes(const Attention& op, const OpContext& context) {
  return tiled(op, context) ? 0 : kernel::attend_spans_workspace(args_of(op), op.q.rows);
}

void run(const Attention& op, const OpContext& context) {
  const kernel::LiveRows rows{op.rows.live.data(), op.q.rows};
  if (tiled(op, context)) {
    if (on_tensor_cores(op, context)) return kernel::launch_attend_mma(args_of(op), rows, context.stream);
    return kernel::launch_attend_tiles(args_of(op), rows, context.stream);
  }
  kernel::launch_attend_spans(args_of(op), rows, context.workspace, context.stream);
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
