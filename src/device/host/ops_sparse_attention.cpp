#include <algorithm>
#include <cstring>

#include "device/host/attention_items.h"
#include "device/host/host_ops.h"

namespace strata::device::host {
namespace {

// The block at `position` of a row's sequence, counted through the KV cache in blocks of `block` tokens.
int64_t cache_block(const RowMap& rows, int64_t row, int64_t position, int kv_block_tokens, int block) {
  const int64_t kv_block = rows.block_table.row(rows.slots.data()[row])[position / kv_block_tokens];
  return (kv_block * kv_block_tokens + position % kv_block_tokens) / block;
}

struct Segment {
  int64_t slot, first, rows, position;
};
Segment segment(const IndexAppend& op, int64_t i) {
  const int32_t* s = op.segments.segments.row(i);
  return {s[0], s[1], s[2], op.rows.positions.data()[s[1]]};
}

// The key of the block that the token at `last` completes.
void append_key(const IndexAppend& op, const Segment& s, int64_t last, const kernels::Kernels& kernel, float* cos_sin) {
  const int64_t dim = op.k.cols;
  const int block = op.index.block;
  const int64_t first = last - block + 1;
  const int n_pairs = static_cast<int>(op.inv_freq.cols);
  float* key = op.index.keys.row(cache_block(op.rows, s.first, first, op.index.kv_block_tokens, block));
  std::fill_n(key, dim, 0.0f);
  for (int64_t t = first; t <= last; t++) {
    const float* k = t < s.position ? op.tail.row(s.slot) + t % block * dim : op.k.row(s.first + t - s.position);
    kernel.axpy(1.0f, k, key, dim);
  }
  for (int64_t i = 0; i < dim; i++) key[i] /= static_cast<float>(block);
  kernel.rms_norm(key, op.k_norm.data(), key, dim, op.eps);
  kernels::rope_angles(first, op.inv_freq.data(), n_pairs, op.magnitude, cos_sin, cos_sin + n_pairs);
  kernel.rope(key, cos_sin, cos_sin + n_pairs, n_pairs, false);
}

// Keeps the tokens of a segment behind its last complete block.
void keep_tail(const IndexAppend& op, const Segment& s) {
  const int64_t dim = op.k.cols;
  const int64_t end = s.position + s.rows;
  for (int64_t t = std::max(s.position, end / op.index.block * op.index.block); t < end; t++) {
    std::memcpy(op.tail.row(s.slot) + t % op.index.block * dim, op.k.row(s.first + t - s.position),
                static_cast<size_t>(dim) * sizeof(float));
  }
}

}  // namespace

int64_t scratch_floats(const IndexAppend& op) { return op.cos_sin.cols; }

void run(const IndexAppend& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int64_t dim = op.k.cols;
  const int n_pairs = static_cast<int>(op.inv_freq.cols);
  for (int64_t i = 0; i < op.segments.n_segments.data()[0]; i++) {
    const Segment s = segment(op, i);
    compute.pool().for_each(s.rows, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = s.first + begin; r < s.first + end; r++) {
        const float* cos = op.cos_sin.row(r);
        for (float* q = op.q.row(r); q < op.q.row(r) + op.q.cols; q += dim) {
          kernel.rms_norm(q, op.q_norm.data(), q, dim, op.eps);
          kernel.rope(q, cos, cos + n_pairs, n_pairs, false);
        }
      }
    });
    const int64_t first_key = s.position / op.index.block;
    const int64_t n_keys = (s.position + s.rows) / op.index.block - first_key;
    compute.pool().for_each(n_keys, 4, [&](int64_t begin, int64_t end, int worker) {
      float* cos_sin = compute.scratch(worker, scratch_floats(op));
      for (int64_t key = first_key + begin; key < first_key + end; key++) {
        append_key(op, s, (key + 1) * op.index.block - 1, kernel, cos_sin);
      }
    });
    keep_tail(op, s);
  }
}

namespace {

int64_t heads_of(const SelectBlocks& op) { return op.q.cols / op.index.keys.cols; }
// Complete blocks up to a row's position.
int64_t complete_blocks(const RowMap& rows, int64_t row, int block) {
  return (int64_t{rows.positions.data()[row]} + 1) / block;
}
int64_t max_blocks(const SelectBlocks& op) {
  return op.rows.block_table.cols * op.index.keys_per_kv_block();
}

// What a thread computes in: products of the keys of one KV block with all heads, and what the product takes.
int64_t product_floats(const SelectBlocks& op) {
  return heads_of(op) * op.index.keys_per_kv_block() + matmul_scratch(op.index.keys.cols);
}

// scores[b] of the blocks [begin, end), `begin` and, but for the last, `end` at borders of KV blocks.
void score_blocks(const SelectBlocks& op, int64_t row, int64_t begin, int64_t end, const kernels::Kernels& kernel,
                  float* products, float* scores) {
  const int64_t dim = op.index.keys.cols;
  const int64_t heads = heads_of(op);
  const int64_t per_kv = op.index.keys_per_kv_block();
  const int32_t* table = op.rows.block_table.row(op.rows.slots.data()[row]);
  for (int64_t b = begin; b < end; b += per_kv) {
    const int64_t n = std::min(per_kv, end - b);
    const float* keys = op.index.keys.row(table[b / per_kv] * per_kv);
    const kernels::Matrix matrix{quant::Type::F32, reinterpret_cast<const uint8_t*>(keys), n, dim,
                                 static_cast<size_t>(op.index.keys.stride) * sizeof(float)};
    kernel.matmul(matrix, 0, n, op.q.row(row), dim, heads, products, per_kv, products + heads * per_kv);
    for (int64_t i = 0; i < n; i++) {
      float score = 0;
      for (int64_t h = 0; h < heads; h++) {
        const float product = products[h * per_kv + i];
        if (product > 0) score += product;  // NaN counts as 0: scores have an order
      }
      scores[b + i] = score;
    }
  }
}

// Writes a row's blocks, which `order` (room for all complete ones) and the scores choose.
void write_chosen(const SelectBlocks& op, int64_t row, const float* scores, int32_t* order) {
  const int block = op.index.block;
  const int64_t n_complete = complete_blocks(op.rows, row, block);
  const int64_t n = std::min<int64_t>(n_complete, op.most);
  for (int64_t b = 0; b < n_complete; b++) order[b] = static_cast<int32_t>(b);
  if (n < n_complete) {
    std::nth_element(order, order + n - 1, order + n_complete, [&](int32_t a, int32_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    std::sort(order, order + n);
  }
  int32_t* out = op.chosen.row(row);
  *out++ = static_cast<int32_t>(n);
  const auto put = [&](int64_t b) {
    *out++ = static_cast<int32_t>(cache_block(op.rows, row, b * block, op.index.kv_block_tokens, block));
  };
  for (int64_t i = 0; i < n; i++) put(order[i]);
  if ((op.rows.positions.data()[row] + 1) % block != 0) put(n_complete);
}

// KV blocks that a thread scores at once at the least.
constexpr int64_t kScoreGrain = 32;

}  // namespace

// A thread's products, and behind them the scores and the order of one row.
int64_t scratch_floats(const SelectBlocks& op) { return product_floats(op) + 2 * max_blocks(op); }

void run(const SelectBlocks& op, Compute& compute) {
  const int64_t live = op.rows.live.data()[0];
  const int64_t per_kv = op.index.keys_per_kv_block();
  const auto products = [&](int64_t thread) { return compute.scratch(static_cast<int>(thread), scratch_floats(op)); };
  const auto scores = [&](int64_t thread) { return products(thread) + product_floats(op); };
  const auto order = [&](int64_t thread) { return reinterpret_cast<int32_t*>(scores(thread) + max_blocks(op)); };
  const auto to_score = [&](int64_t row) {
    const int64_t n = complete_blocks(op.rows, row, op.index.block);
    return n > op.most ? n : 0;
  };
  if (live < compute.pool().n_threads()) {  // a row is shared out
    for (int64_t row = 0; row < live; row++) {
      const int64_t n = to_score(row);
      compute.pool().for_each((n + per_kv - 1) / per_kv, kScoreGrain, [&](int64_t begin, int64_t end, int worker) {
        score_blocks(op, row, begin * per_kv, std::min(n, end * per_kv), compute.kernels(), products(worker),
                     scores(0));
      });
      write_chosen(op, row, scores(0), order(0));
    }
    return;
  }
  compute.pool().for_each(live, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t row = begin; row < end; row++) {
      score_blocks(op, row, 0, to_score(row), compute.kernels(), products(worker), scores(worker));
      write_chosen(op, row, scores(worker), order(worker));
    }
  });
}

namespace {

bool sees_all(const SparseAttention& op, int64_t row) {
  return op.chosen.row(row)[0] == complete_blocks(op.rows, row, op.block);
}

// A row that sees all of its context goes through its blocks of the KV cache, one that does not through its chosen
// ones as though they followed one another: which of the two depends on its position alone.
kernels::AttentionArgs row_args(const SparseAttention& op, int64_t row, int64_t bundle, float* scratch) {
  if (sees_all(op, row)) return args_of(op.dense(), row, bundle, scratch);
  kernels::AttentionArgs args = bundle_args(op, row, bundle, scratch);
  const int32_t* chosen = op.chosen.row(row);
  args.block_table = chosen + 1;
  args.block_tokens = op.block;
  args.position = int64_t{chosen[0]} * op.block + (op.rows.positions.data()[row] + 1) % op.block - 1;
  return args;
}

int64_t own_scratch(const SparseAttention& op) {
  return kernels::attention_scratch(bundle_heads(op), op.kv.key_dim, op.kv.value_dim, op.kv.block_tokens);
}
int64_t state_floats(const SparseAttention& op) { return kernels::attention_state(bundle_heads(op), op.kv.value_dim); }
int64_t max_spans(const SparseAttention& op) {
  return kernels::attention_spans(0, (op.chosen.cols - 1) * int64_t{op.block} - 1);
}

}  // namespace

int64_t scratch_floats(const SparseAttention& op) {
  return std::max(scratch_floats(op.dense()), own_scratch(op) + max_spans(op) * state_floats(op));
}

void run(const SparseAttention& op, Compute& compute) {
  const int64_t live = op.rows.live.data()[0];
  bool all_dense = true;
  for (int64_t row = 0; row < live; row++) all_dense = all_dense && sees_all(op, row);
  if (all_dense) return run(op.dense(), compute);
  const AttentionItems items{
      live * n_bundles(op), own_scratch(op), state_floats(op), max_spans(op),
      [&](int64_t item, float* scratch) { return row_args(op, item / n_bundles(op), item % n_bundles(op), scratch); },
      [&](const kernels::AttentionArgs& args) {
        if (op.gated) apply_gates(args, compute.kernels());
      }};
  const int64_t items_wanted = kItemsPerThread * compute.pool().n_threads();
  if (compute.pool().n_threads() > 1 && items.n < items_wanted) return attend_by_spans(items, compute);
  attend_one_by_one(items, compute);
}

}  // namespace strata::device::host
