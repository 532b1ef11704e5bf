// Attention of (row, bundle of heads) items on the host: what the operations that attend have in common.
#pragma once

#include <algorithm>

#include "device/host/compute.h"
#include "device/ops/attention.h"

namespace strata::device::host {

// Items a thread should get for all to have about as much to do. With fewer, an item is shared out by its spans.
inline constexpr int64_t kItemsPerThread = 4;

// The heads of a KV head are computed together, but for groups that are as large as those of a latent cache, where all
// of them have the one: in parts, or a step of one row would give one thread all of it.
inline constexpr int kBundleHeads = 16;
template <class Op>
int group_of(const Op& op) {
  return op.n_heads / op.kv.n_kv_heads;
}
template <class Op>
int bundle_heads(const Op& op) {
  return std::min(group_of(op), kBundleHeads);
}
template <class Op>
int bundles_of_group(const Op& op) {
  return (group_of(op) + kBundleHeads - 1) / kBundleHeads;
}
template <class Op>
int64_t n_bundles(const Op& op) {
  return int64_t{op.kv.n_kv_heads} * bundles_of_group(op);
}
template <class Op>
int64_t first_head(const Op& op, int64_t bundle) {
  return bundle / bundles_of_group(op) * group_of(op) + bundle % bundles_of_group(op) * kBundleHeads;
}

// The arguments of one row and bundle of an operation with q, y, kv, n_heads, q_head_stride and scale, but for what it
// sees: block table, position, window and sinks.
template <class Op>
kernels::AttentionArgs bundle_args(const Op& op, int64_t row, int64_t bundle, float* scratch) {
  const int64_t kv_head = bundle / bundles_of_group(op);
  const int64_t head = first_head(op, bundle);
  kernels::AttentionArgs args{};
  args.q = op.q.row(row) + head * op.q_head_stride;
  args.q_row_stride = op.q.stride;
  args.q_stride = op.q_head_stride;
  args.n_rows = 1;
  args.n_q = static_cast<int>(std::min<int64_t>(kBundleHeads, (kv_head + 1) * group_of(op) - head));
  args.head_dim = op.kv.key_dim;
  args.value_dim = op.kv.value_dim;
  args.type = op.kv.type;
  args.k = reinterpret_cast<const uint8_t*>(op.kv.k->address());
  args.v = reinterpret_cast<const uint8_t*>(op.kv.v->address());
  args.k_token_bytes = op.kv.k_token_bytes();
  args.v_token_bytes = op.kv.v_token_bytes();
  args.k_head_offset = kernels::kv_bytes(op.kv.type, kv_head * op.kv.key_dim);
  args.v_head_offset = kernels::kv_bytes(op.kv.type, kv_head * op.kv.value_dim);
  args.block_tokens = op.kv.block_tokens;
  args.scale = op.scale;
  args.out = op.y.row(row) + head * op.kv.value_dim;
  args.out_row_stride = op.y.stride;
  args.out_stride = op.kv.value_dim;
  args.scratch = scratch;
  return args;
}

// One row of an Attention.
inline kernels::AttentionArgs args_of(const Attention& op, int64_t row, int64_t bundle, float* scratch) {
  kernels::AttentionArgs args = bundle_args(op, row, bundle, scratch);
  args.block_table = op.rows.block_table.row(op.rows.slots.data()[row]);
  args.position = op.rows.positions.data()[row];
  args.window = op.window;
  args.sinks = op.sinks.empty() ? nullptr : op.sinks.data() + first_head(op, bundle);
  return args;
}

// out *= sigmoid(gate), the gate of a head being the values behind its query.
inline void apply_gates(const kernels::AttentionArgs& args, const kernels::Kernels& kernel) {
  for (int r = 0; r < args.n_rows; r++) {
    for (int h = 0; h < args.n_q; h++) {
      const float* gate = args.q + r * args.q_row_stride + h * args.q_stride + args.head_dim;
      kernel.sigmoid_mul(args.out + r * args.out_row_stride + h * args.out_stride, gate, args.value_dim);
    }
  }
}

inline int64_t first_visible(const kernels::AttentionArgs& args) {
  return args.window > 0 ? std::max<int64_t>(0, args.position - args.window + 1) : 0;
}
inline int64_t spans_of(const kernels::AttentionArgs& args) {
  return kernels::attention_spans(first_visible(args), args.position);
}

// Items of one row and bundle each. args(item, scratch) gives the arguments of one, finish(args) is called when its
// outputs are there. A thread computes in `own` floats; behind them lie states of `state` floats for up to `spans`
// spans of an item.
template <class Args, class Finish>
struct AttentionItems {
  int64_t n;
  int64_t own, state, spans;
  Args args;
  Finish finish;
  int64_t floats() const { return own + spans * state; }

  // Most spans of one of the items [begin, end).
  int64_t most_spans(int64_t begin, int64_t end) const {
    int64_t most = 0;
    for (int64_t i = begin; i < end; i++) most = std::max(most, spans_of(args(i, nullptr)));
    return most;
  }
};
template <class Args, class Finish>
AttentionItems(int64_t, int64_t, int64_t, int64_t, Args, Finish) -> AttentionItems<Args, Finish>;

// Few items with long contexts: as many at a time as there are threads, each shared out by spans. The states of an
// item's spans lie in the scratch of the thread of its number.
template <class Items>
void attend_by_spans(const Items& items, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t n_threads = compute.pool().n_threads();
  const auto scratch = [&](int64_t thread) { return compute.scratch(static_cast<int>(thread), items.floats()); };
  for (int64_t first = 0; first < items.n; first += n_threads) {
    const int64_t n = std::min(n_threads, items.n - first);
    const int64_t n_spans = items.most_spans(first, first + n);
    compute.pool().for_each(n * n_spans, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t unit = begin; unit < end; unit++) {
        const int64_t i = unit / n_spans;
        const int64_t nth = unit % n_spans;
        const kernels::AttentionArgs args = items.args(first + i, scratch(worker));
        if (nth >= spans_of(args)) continue;
        const int64_t span = first_visible(args) / kernels::kAttentionSpan + nth;
        kernel.attention_span(args, span, scratch(i) + items.own + nth * items.state);
      }
    });
    compute.pool().for_each(n, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; i++) {
        const kernels::AttentionArgs args = items.args(first + i, scratch(worker));
        kernel.attention_join(args, scratch(i) + items.own, items.state);
        items.finish(args);
      }
    });
  }
}

// The same, an item a thread.
template <class Items>
void attend_one_by_one(const Items& items, Compute& compute) {
  compute.pool().for_each(items.n, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; i++) {
      const kernels::AttentionArgs args = items.args(i, compute.scratch(worker, items.floats()));
      compute.kernels().attention(args);
      items.finish(args);
    }
  });
}

}  // namespace strata::device::host
