// Softmax attention over the blocks of the KV cache, for several rows of a sequence at once: a block is brought to
// float32 once for all of them.
//
// What is computed for a row is the same whatever rows are computed with it: each span of kAttentionSpan positions has
// a softmax of its own, formed block by block with a running maximum, and the spans are joined in order. A block that
// some row sees only in part (at its own position, or at the border of the window) is gone through row by row, so that
// no row meets a key it does not see.
#pragma once

#include "kernels/cpu/attention/kv.inl.h"
#include "kernels/cpu/attention/scores.inl.h"
#include "kernels/cpu/attention/softmax.inl.h"
#include "kernels/cpu/attention/values.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

// Positions [begin, end).
struct Positions {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
  Positions within(Positions o) const {
    return {begin > o.begin ? begin : o.begin, end < o.end ? end : o.end};
  }
};

static Positions span_positions(int64_t span) { return {span * kAttentionSpan, (span + 1) * kAttentionSpan}; }

// The caller's scratch and what lies in it.
class AttentionTile {
 public:
  static constexpr int kFewQueries = 8;

  explicit AttentionTile(const AttentionArgs& args) : args_(args), n_(args.n_rows * args.n_q) {
    key_width_ = attention_width(args.head_dim);
    value_width_ = attention_width(args.value_dim);
    score_stride_ = attention_width(args.block_tokens);
    float* at = args.scratch;
    const auto take = [&at](int64_t floats) {
      float* begin = at;
      at += floats;
      return begin;
    };
    queries_ = take(n_ * key_width_);
    scores_ = take(n_ * score_stride_);
    rescale_ = take(n_);
    keys_ = take(args.block_tokens * key_width_);
    values_ = take(args.block_tokens * value_width_);
    span_ = Softmax::at(take(attention_state(n_, args.value_dim)), n_, value_width_);
    all_ = Softmax::at(take(attention_state(n_, args.value_dim)), n_, value_width_);
  }

  // Sums of the next spans go to memory of attention_state(queries, value_dim) floats, not into the scratch.
  void put_span(float* state) { span_ = Softmax::at(state, n_, value_width_); }

  // Copies the queries, with zeros behind each: the products take whole vectors.
  void load_queries() const {
    for (int i = 0; i < n_; i++) {
      const float* from = args_.q + i / args_.n_q * args_.q_row_stride + i % args_.n_q * args_.q_stride;
      float* to = queries_ + i * key_width_;
      std::memcpy(to, from, static_cast<size_t>(args_.head_dim) * sizeof(float));
      clear_rest(to, args_.head_dim, key_width_);
    }
  }

  Positions visible(int row) const {
    const int64_t last = args_.position + row;
    return {args_.window > 0 && args_.window <= last ? last - args_.window + 1 : 0, last + 1};
  }
  // What any of the rows sees.
  Positions visible() const { return {visible(0).begin, visible(args_.n_rows - 1).end}; }

  // The softmax of each row over the positions of one span.
  void compute_span(int64_t span) const {
    span_.clear(n_);
    const Positions here = visible().within(span_positions(span));
    const int64_t n = args_.block_tokens;
    for (int64_t at = here.begin; at < here.end;) {
      const int64_t next = (at / n + 1) * n;
      compute_block({at, next < here.end ? next : here.end}, next < here.end ? next : at);
      at = next;
    }
  }

  // Joins what compute_span() left to the spans before it.
  void join(int64_t span) const {
    for (int row = 0; row < args_.n_rows; row++) {
      const Positions seen = visible(row);
      if (seen.within(span_positions(span)).empty()) continue;
      const bool first = seen.begin >= span_positions(span).begin;
      for (int64_t i = row * args_.n_q; i < (row + 1) * args_.n_q; i++) {
        if (first) {
          copy_span(all_.from(i), span_.from(i));
        } else {
          join_span(all_.from(i), span_.from(i));
        }
      }
    }
  }

  void finish() const {
    for (int i = 0; i < n_; i++) {
      const int head = i % args_.n_q;
      const float* sink = args_.sinks != nullptr ? args_.sinks + head : nullptr;
      float* out = args_.out + i / args_.n_q * args_.out_row_stride + head * args_.out_stride;
      finish_query(all_.from(i), sink, out, args_.value_dim);
    }
  }

 private:
  static void clear_rest(float* row, int64_t n, int64_t width) {
    for (int64_t i = n; i < width; i++) row[i] = 0;
  }

  // Keys or values of this head in the layer's cache.
  struct Cache {
    const uint8_t* data;
    size_t token_bytes;
    int dim;
    int64_t width;
    float* floats;  // [block_tokens][width]
  };
  Cache keys() const { return {args_.k + args_.k_head_offset, args_.k_token_bytes, args_.head_dim, key_width_, keys_}; }
  Cache values() const {
    return {args_.v + args_.v_head_offset, args_.v_token_bytes, args_.value_dim, value_width_, values_};
  }
  const uint8_t* token(const Cache& cache, int64_t position) const {
    const int64_t block = position / args_.block_tokens;
    const int64_t token = args_.block_table[block] * int64_t{args_.block_tokens} + position % args_.block_tokens;
    return cache.data + static_cast<size_t>(token) * cache.token_bytes;
  }

  // Rows of floats of positions in one block, while those of the block at `next` are fetched: heads of a token lie
  // together, so that the rows of one head are pieces which the processor does not see coming. Few queries read rows of
  // floats where they lie; for many they are brought close together, or they would displace one another in the cache.
  FloatRows load_rows(const Cache& cache, Positions here, int64_t next) const {
    const uint8_t* from = token(cache, here.begin);
    const uint8_t* ahead = token(cache, next);
    const bool in_place = args_.type == KvType::kF32 && cache.dim % Vec::kLanes == 0 &&
                          cache.token_bytes % sizeof(float) == 0 && n_ <= kFewQueries;
    const auto row_bytes = static_cast<int64_t>(kv_bytes(args_.type, cache.dim));
    for (int64_t t = 0; t < here.end - here.begin; t++) {
      const size_t at = static_cast<size_t>(t) * cache.token_bytes;
      for (int64_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(ahead + at + i, 0, 2);
      if (in_place) continue;
      kv_load(args_.type, from + at, cache.dim, cache.floats + t * cache.width);
      clear_rest(cache.floats + t * cache.width, cache.dim, cache.width);
    }
    if (!in_place) return {cache.floats, cache.width};
    return {reinterpret_cast<const float*>(from), static_cast<int64_t>(cache.token_bytes / sizeof(float))};
  }

  // Calls body(first query, queries, first key, keys) so that all the queries of a call see all its keys.
  template <class Body>
  void for_each_view(Positions here, const Body& body) const {
    const bool all_see_it = visible(0).end >= here.end && visible(args_.n_rows - 1).begin <= here.begin;
    if (all_see_it) return body(0, n_, 0, static_cast<int>(here.end - here.begin));
    for (int row = 0; row < args_.n_rows; row++) {
      const Positions seen = visible(row).within(here);
      if (seen.empty()) continue;
      body(row * args_.n_q, args_.n_q, seen.begin - here.begin, static_cast<int>(seen.end - seen.begin));
    }
  }

  // Positions of one block, each seen by some row. The next block to be computed is that of `next`.
  void compute_block(Positions here, int64_t next) const {
    const FloatRows keys = load_rows(this->keys(), here, next);
    for_each_view(here, [&](int first, int n_queries, int64_t from, int n) {
      float* scores = scores_ + first * score_stride_;
      score({queries_ + first * key_width_, key_width_}, n_queries, {keys[from], keys.stride}, n,
            padded(args_.head_dim), args_.scale, scores, score_stride_);
      soften(span_.from(first), n_queries, scores, score_stride_, n, rescale_ + first);
    });
    const FloatRows values = load_rows(this->values(), here, next);
    for_each_view(here, [&](int first, int n_queries, int64_t from, int n) {
      const ValueSums sums = {span_.acc_of(first), value_width_, rescale_ + first,
                              {scores_ + first * score_stride_, score_stride_}};
      add_values(sums, n_queries, {values[from], values.stride}, n, padded(args_.value_dim));
    });
  }

  // Whole vectors.
  static int padded(int dim) { return (dim + Vec::kLanes - 1) / Vec::kLanes * Vec::kLanes; }

  const AttentionArgs& args_;
  int n_;  // queries
  int64_t key_width_, value_width_, score_stride_;
  float* queries_;  // [n][key_width]
  float* scores_;   // [n][score_stride]
  float* rescale_;  // [n]
  float* keys_;     // [block_tokens][key_width]
  float* values_;   // [block_tokens][value_width]
  Softmax span_, all_;
};

static void attention(const AttentionArgs& args) {
  const AttentionTile tile(args);
  tile.load_queries();
  const Positions seen = tile.visible();
  for (int64_t span = seen.begin / kAttentionSpan; span * kAttentionSpan < seen.end; span++) {
    tile.compute_span(span);
    tile.join(span);
  }
  tile.finish();
}

static void attention_span(const AttentionArgs& args, int64_t span, float* state) {
  AttentionTile tile(args);
  tile.put_span(state);
  tile.load_queries();
  tile.compute_span(span);
}

static void attention_join(const AttentionArgs& args, float* states, int64_t state_stride) {
  AttentionTile tile(args);
  const Positions seen = tile.visible();
  for (int64_t span = seen.begin / kAttentionSpan; span * kAttentionSpan < seen.end; span++) {
    tile.put_span(states);
    tile.join(span);
    states += state_stride;
  }
  tile.finish();
}

}  // namespace strata::kernels::STRATA_ISA_NS
