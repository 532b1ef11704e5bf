#include <algorithm>

#include "device/host/host_ops.h"
#include "kernels/rope.h"

namespace strata::device::host {
namespace {

int32_t block_of(const RowMap& rows, int64_t slot, int64_t position, int block_tokens) {
  return rows.block_table.row(slot)[position / block_tokens];
}

}  // namespace

void run(const RopeAngles& op, Compute& compute) {
  const int n_pairs = static_cast<int>(op.inv_freq.cols);
  compute.pool().for_each(op.live.data()[0], 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* cos = op.cos_sin.row(r);
      kernels::rope_angles(op.positions.data()[r], op.inv_freq.data(), n_pairs, op.magnitude, cos, cos + n_pairs);
    }
  });
}

void run(const RopeAppend& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int dim = op.kv.key_dim;
  const int n_pairs = static_cast<int>(op.cos_sin.cols / 2);
  const auto head = [&](float* x, const In<float>& gain, const float* cos) {
    if (!gain.empty()) kernel.rms_norm(x, gain.data(), x, dim, op.eps);
    kernel.rope(x, cos, cos + n_pairs, n_pairs, op.interleaved);
  };
  compute.pool().for_each(op.rows.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const float* cos = op.cos_sin.row(r);
      for (int h = 0; h < op.n_heads; h++) head(op.q.row(r) + h * op.q_head_stride, op.q_norm, cos);
      for (int h = 0; h < op.kv.n_kv_heads; h++) head(op.k.row(r) + h * dim, op.k_norm, cos);
      const int64_t position = op.rows.positions.data()[r];
      const int64_t block = block_of(op.rows, op.rows.slots.data()[r], position, op.kv.block_tokens);
      const size_t token = static_cast<size_t>(block * op.kv.block_tokens + position % op.kv.block_tokens);
      auto* k = reinterpret_cast<uint8_t*>(op.kv.k->address()) + token * op.kv.k_token_bytes();
      auto* v = reinterpret_cast<uint8_t*>(op.kv.v->address()) + token * op.kv.v_token_bytes();
      kernel.kv_store(op.kv.type, op.k.row(r), k, op.k.cols);
      kernel.kv_store(op.kv.type, op.v.row(r), v, op.v.cols);
    }
  });
}

namespace {

// Queries computed together: as many as make the conversion of a block small beside what is computed with it.
constexpr int64_t kTileQueries = 128;
// Items a thread should get for all to have about as much to do. With fewer, an item is shared out by its spans.
constexpr int64_t kItemsPerThread = 4;

// The heads of a KV head are computed together, but for groups that are as large as those of a latent cache, where all
// of them have the one: in parts, or a step of one row would give one thread all of it.
constexpr int kBundleHeads = 16;
int group_of(const Attention& op) { return op.n_heads / op.kv.n_kv_heads; }
int bundle_heads(const Attention& op) { return std::min(group_of(op), kBundleHeads); }
int bundles_of_group(const Attention& op) { return (group_of(op) + kBundleHeads - 1) / kBundleHeads; }
int64_t n_bundles(const Attention& op) { return int64_t{op.kv.n_kv_heads} * bundles_of_group(op); }

// Floats that a thread computes in, in front of the states of the spans of one (row, bundle).
int64_t own_scratch(const Attention& op) {
  const int64_t tile_rows = std::max<int64_t>(1, std::min(op.q.rows, kTileQueries / bundle_heads(op)));
  return kernels::attention_scratch(tile_rows * bundle_heads(op), op.kv.key_dim, op.kv.value_dim, op.kv.block_tokens);
}
int64_t state_floats(const Attention& op) { return kernels::attention_state(bundle_heads(op), op.kv.value_dim); }

// Spans that a row can see at most.
int64_t max_spans(const Attention& op) {
  const int64_t of_context = kernels::attention_spans(0, op.rows.block_table.cols * op.kv.block_tokens - 1);
  if (op.window == 0) return of_context;
  return std::min(of_context, kernels::attention_spans(kernels::kAttentionSpan - 1,
                                                       kernels::kAttentionSpan - 1 + op.window - 1));
}

int64_t first_visible(const Attention& op, int64_t position) {
  return op.window > 0 ? std::max<int64_t>(0, position - op.window + 1) : 0;
}

// A bundle of the heads of rows [row, row + n_rows), which are of one sequence at consecutive positions.
kernels::AttentionArgs args_of(const Attention& op, int64_t row, int64_t n_rows, int64_t bundle, float* scratch) {
  const int64_t kv_head = bundle / bundles_of_group(op);
  const int first = static_cast<int>(bundle % bundles_of_group(op)) * kBundleHeads;  // of the heads of the KV head
  const int64_t head = kv_head * group_of(op) + first;
  kernels::AttentionArgs args{};
  args.q = op.q.row(row) + head * op.q_head_stride;
  args.q_row_stride = op.q.stride;
  args.q_stride = op.q_head_stride;
  args.n_rows = static_cast<int>(n_rows);
  args.n_q = std::min(bundle_heads(op), group_of(op) - first);
  args.head_dim = op.kv.key_dim;
  args.value_dim = op.kv.value_dim;
  args.type = op.kv.type;
  args.k = reinterpret_cast<const uint8_t*>(op.kv.k->address());
  args.v = reinterpret_cast<const uint8_t*>(op.kv.v->address());
  args.k_token_bytes = op.kv.k_token_bytes();
  args.v_token_bytes = op.kv.v_token_bytes();
  args.k_head_offset = kernels::kv_bytes(op.kv.type, kv_head * op.kv.key_dim);
  args.v_head_offset = kernels::kv_bytes(op.kv.type, kv_head * op.kv.value_dim);
  args.block_table = op.rows.block_table.row(op.rows.slots.data()[row]);
  args.block_tokens = op.kv.block_tokens;
  args.position = op.rows.positions.data()[row];
  args.window = op.window;
  args.scale = op.scale;
  args.sinks = op.sinks.empty() ? nullptr : op.sinks.data() + head;
  args.out = op.y.row(row) + head * op.kv.value_dim;
  args.out_row_stride = op.y.stride;
  args.out_stride = op.kv.value_dim;
  args.scratch = scratch;
  return args;
}

void apply_gates(const Attention& op, const kernels::AttentionArgs& args, const kernels::Kernels& kernel) {
  if (!op.gated) return;
  for (int r = 0; r < args.n_rows; r++) {
    for (int h = 0; h < args.n_q; h++) {
      const float* gate = args.q + r * args.q_row_stride + h * args.q_stride + op.kv.key_dim;
      kernel.sigmoid_mul(args.out + r * args.out_row_stride + h * args.out_stride, gate, op.kv.value_dim);
    }
  }
}

// How many rows from `row` on, of at most `limit`, follow one another in one sequence.
int64_t run_length(const RowMap& rows, int64_t row, int64_t limit) {
  const int32_t* slots = rows.slots.data() + row;
  const int32_t* positions = rows.positions.data() + row;
  int64_t n = 1;
  while (n < limit && slots[n] == slots[0] && positions[n] == positions[0] + n) n++;
  return n;
}

// Most spans that one of the rows [begin, end) sees.
int64_t spans_seen(const Attention& op, int64_t begin, int64_t end) {
  int64_t most = 0;
  for (int64_t r = begin; r < end; r++) {
    const int64_t position = op.rows.positions.data()[r];
    most = std::max(most, kernels::attention_spans(first_visible(op, position), position));
  }
  return most;
}

// A thread takes `tile_rows` rows of a bundle of heads, and computes together what belongs to one sequence. Later rows
// see more, so they go first and no thread is left alone with them.
void run_tiles(const Attention& op, int64_t live, int64_t tile_rows, Compute& compute) {
  const int64_t n_tiles = (live + tile_rows - 1) / tile_rows;
  compute.pool().for_each(n_tiles * n_bundles(op), 1, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = compute.scratch(worker, own_scratch(op));
    for (int64_t item = begin; item < end; item++) {
      const int64_t bundle = item % n_bundles(op);
      const int64_t first_row = (n_tiles - 1 - item / n_bundles(op)) * tile_rows;
      const int64_t end_row = std::min(live, first_row + tile_rows);
      for (int64_t row = first_row; row < end_row;) {
        const int64_t n = run_length(op.rows, row, end_row - row);
        const kernels::AttentionArgs args = args_of(op, row, n, bundle, scratch);
        compute.kernels().attention(args);
        apply_gates(op, args, compute.kernels());
        row += n;
      }
    }
  });
}

// Few rows with long contexts: as many (row, bundle) items at a time as there are threads, each shared out by spans.
// The states of an item's spans lie in the scratch of the thread of its number, behind what that computes in.
void run_spans(const Attention& op, int64_t live, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t n_items = live * n_bundles(op);
  const int64_t n_threads = compute.pool().n_threads();
  const int64_t floats = scratch_floats(op);
  const auto item_args = [&](int64_t item, int worker) {
    return args_of(op, item / n_bundles(op), 1, item % n_bundles(op), compute.scratch(worker, floats));
  };
  const auto states = [&](int64_t area) { return compute.scratch(static_cast<int>(area), floats) + own_scratch(op); };
  for (int64_t first = 0; first < n_items; first += n_threads) {
    const int64_t n = std::min(n_threads, n_items - first);
    const int64_t n_spans = spans_seen(op, first / n_bundles(op), (first + n - 1) / n_bundles(op) + 1);
    compute.pool().for_each(n * n_spans, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t unit = begin; unit < end; unit++) {
        const int64_t i = unit / n_spans;
        const int64_t nth = unit % n_spans;
        const kernels::AttentionArgs args = item_args(first + i, worker);
        const int64_t visible = first_visible(op, args.position);
        if (nth >= kernels::attention_spans(visible, args.position)) continue;
        kernel.attention_span(args, visible / kernels::kAttentionSpan + nth, states(i) + nth * state_floats(op));
      }
    });
    compute.pool().for_each(n, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; i++) {
        const kernels::AttentionArgs args = item_args(first + i, worker);
        kernel.attention_join(args, states(i), state_floats(op));
        apply_gates(op, args, kernel);
      }
    });
  }
}

}  // namespace

int64_t scratch_floats(const Attention& op) { return own_scratch(op) + max_spans(op) * state_floats(op); }

void run(const Attention& op, Compute& compute) {
  const int64_t live = op.rows.live.data()[0];
  const int64_t n_items = live * n_bundles(op);
  const int64_t items_wanted = kItemsPerThread * compute.pool().n_threads();
  if (compute.pool().n_threads() > 1 && n_items < items_wanted && spans_seen(op, 0, live) > 1) {
    return run_spans(op, live, compute);
  }
  const int64_t most_rows = std::max<int64_t>(1, kTileQueries / bundle_heads(op));
  run_tiles(op, live, std::clamp<int64_t>(n_items / items_wanted, 1, most_rows), compute);
}

int64_t scratch_floats(const AppendAttend& op) { return scratch_floats(op.attention()); }

void run(const AppendAttend& op, Compute& compute) {
  run(op.append, compute);
  run(op.attention(), compute);
}

}  // namespace strata::device::host
