#include <algorithm>

#include "device/host/attention_items.h"
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

// How many rows from `row` on, of at most `limit`, follow one another in one sequence.
int64_t run_length(const RowMap& rows, int64_t row, int64_t limit) {
  const int32_t* slots = rows.slots.data() + row;
  const int32_t* positions = rows.positions.data() + row;
  int64_t n = 1;
  while (n < limit && slots[n] == slots[0] && positions[n] == positions[0] + n) n++;
  return n;
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
        kernels::AttentionArgs args = args_of(op, row, bundle, scratch);
        args.n_rows = static_cast<int>(n);
        compute.kernels().attention(args);
        if (op.gated) apply_gates(args, compute.kernels());
        row += n;
      }
    }
  });
}

}  // namespace

int64_t scratch_floats(const Attention& op) { return own_scratch(op) + max_spans(op) * state_floats(op); }

void run(const Attention& op, Compute& compute) {
  const int64_t live = op.rows.live.data()[0];
  const AttentionItems items{
      live * n_bundles(op), own_scratch(op), state_floats(op), max_spans(op),
      [&](int64_t item, float* scratch) { return args_of(op, item / n_bundles(op), item % n_bundles(op), scratch); },
      [&](const kernels::AttentionArgs& args) {
        if (op.gated) apply_gates(args, compute.kernels());
      }};
  const int64_t items_wanted = kItemsPerThread * compute.pool().n_threads();
  if (compute.pool().n_threads() > 1 && items.n < items_wanted && items.most_spans(0, items.n) > 1) {
    return attend_by_spans(items, compute);
  }
  const int64_t most_rows = std::max<int64_t>(1, kTileQueries / bundle_heads(op));
  run_tiles(op, live, std::clamp<int64_t>(items.n / items_wanted, 1, most_rows), compute);
}

int64_t scratch_floats(const AppendAttend& op) { return scratch_floats(op.attention()); }

void run(const AppendAttend& op, Compute& compute) {
  run(op.append, compute);
  run(op.attention(), compute);
}

}  // namespace strata::device::host
