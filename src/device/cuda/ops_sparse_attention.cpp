// Sparse attention on a CUDA device: the keys of its index, the choice of blocks, the attention to them.
#include "device/cuda/ops_attention.h"
#include "device/cuda/ops_maps.h"
#include "kernels/cuda/block_index.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

namespace {

kernel::BlockKeys keys_of(const BlockIndex& index) {
  return {.keys = index.keys.data(),
          .stride = index.keys.stride,
          .dim = static_cast<int>(index.keys.cols),
          .kv_block_tokens = index.kv_block_tokens,
          .block = index.block};
}

}  // namespace

void run(const IndexAppend& op, const OpContext& context) {
  kernel::launch_index_append({.q = op.q.data(),
                               .q_stride = op.q.stride,
                               .n_heads = static_cast<int>(op.q.cols / op.k.cols),
                               .k = op.k.data(),
                               .k_stride = op.k.stride,
                               .q_norm = op.q_norm.data(),
                               .k_norm = op.k_norm.data(),
                               .cos_sin = op.cos_sin.data(),
                               .cos_sin_stride = op.cos_sin.stride,
                               .inv_freq = op.inv_freq.data(),
                               .n_pairs = static_cast<int>(op.inv_freq.cols),
                               .magnitude = op.magnitude,
                               .eps = op.eps,
                               .places = places_of(op.rows),
                               .tail = op.tail.empty() ? nullptr : op.tail.data(),
                               .tail_stride = op.tail.stride,
                               .index = keys_of(op.index),
                               .rows = op.q.rows},
                              segments_of(op.segments), context.stream);
}

namespace {

kernel::SelectArgs args_of(const SelectBlocks& op) {
  return {.q = op.q.data(),
          .q_stride = op.q.stride,
          .n_heads = static_cast<int>(op.q.cols / op.index.keys.cols),
          .places = places_of(op.rows),
          .index = keys_of(op.index),
          .chosen = op.chosen.data(),
          .chosen_stride = op.chosen.stride,
          .most = op.most};
}

}  // namespace

size_t workspace_bytes(const SelectBlocks& op, const OpContext&) {
  return kernel::select_workspace(args_of(op), op.q.rows);
}

void run(const SelectBlocks& op, const OpContext& context) {
  kernel::launch_select(args_of(op), {op.rows.live.data(), op.q.rows}, context.workspace, context.stream);
}

namespace {

// A row's chosen blocks as though they were all of its sequence.
kernel::AttendArgs args_of(const SparseAttention& op) {
  kernel::Places places = places_of(op.rows);
  places.block_table = op.chosen.data() + 1;
  places.table_stride = op.chosen.stride;
  places.max_blocks = op.chosen.cols - 1;
  places.by_row = true;
  kernel::KvCache kv = cache_of(op.kv);
  kv.block_tokens = op.block;
  return {.q = op.q.data(),
          .q_stride = op.q.stride,
          .q_head_stride = op.q_head_stride,
          .n_heads = op.n_heads,
          .sinks = nullptr,
          .gated = op.gated,
          .window = 0,
          .scale = op.scale,
          .places = places,
          .kv = kv,
          .y = op.y.data(),
          .y_stride = op.y.stride};
}

bool row_by_row(const SparseAttention& op, const OpContext& context) {
  return !context.deterministic &&
         kernel::attend_rows_fits(args_of(op), context.compute_capability, context.max_shared_bytes);
}
// The first position with more complete blocks than a row may choose.
int64_t first_choice(const SparseAttention& op) { return (op.chosen.cols - 1) * op.block - 1; }

}  // namespace

size_t workspace_bytes(const SparseAttention& op, const OpContext& context) {
  const kernel::AttendArgs args = args_of(op);
  if (row_by_row(op, context)) return kernel::attend_rows_workspace(args, op.q.rows, context.n_sms);
  return kernel::attend_spans_workspace(args, op.q.rows);
}

void run(const SparseAttention& op, const OpContext& context) {
  const kernel::LiveRows rows{op.rows.live.data(), op.q.rows};
  kernel::AttendArgs args = args_of(op);
  if (!row_by_row(op, context)) {
    return kernel::launch_attend_spans(args, rows, context.workspace, context.stream);
  }
  // Those rows of a prompt that see all of their context are computed in tiles.
  if (attends_in_tiles(op.dense(), context)) {
    args.from = first_choice(op);
    attend_in_tiles(op.dense(), args.from, context);
  }
  kernel::launch_attend_rows(args, rows, context.n_sms, context.workspace, context.stream);
}

}  // namespace strata::device::cuda
