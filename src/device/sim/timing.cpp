#include "device/sim/timing.h"

#include <algorithm>

namespace strata::device::sim {
namespace {

constexpr size_t kGapsMax = 64;

uint64_t live_rows(const In<int32_t>& live, int64_t rows) {
  return static_cast<uint64_t>(std::clamp<int64_t>(live.data()[0], 0, rows));
}
uint64_t product_flops(const Weight& w, uint64_t rows) {
  return 2 * static_cast<uint64_t>(w.rows) * static_cast<uint64_t>(w.cols) * rows;
}

template <class Op>
Cost cost(const Op&, const Touched& touched) {
  return {.flops = 0, .bytes = touched.bytes};
}
Cost cost(const MatMul& op, const Touched& touched) {
  return {.flops = product_flops(op.w, live_rows(op.live, op.x.rows)), .bytes = touched.bytes};
}
Cost cost(const Router& op, const Touched& touched) {
  return {.flops = product_flops(op.w, live_rows(op.live, op.x.rows)), .bytes = touched.bytes};
}
// Its view of the table is the whole vocabulary; it reads a row a token.
Cost cost(const Embed& op, const Touched&) {
  const uint64_t row_bytes = op.table.row_bytes + static_cast<uint64_t>(op.y.cols) * sizeof(float);
  return {.flops = 0, .bytes = live_rows(op.live, op.y.rows) * row_bytes};
}
// A row's keys and values are each multiplied with every query head of their group.
Cost cost(const Attention& op, const Touched& touched) {
  const uint64_t token_bytes = op.kv.k_token_bytes() + op.kv.v_token_bytes();
  const uint64_t tokens = touched.indirect_bytes / token_bytes;
  const uint64_t per_token = static_cast<uint64_t>(op.n_heads) * static_cast<uint64_t>(op.kv.key_dim + op.kv.value_dim);
  return {.flops = 2 * tokens * per_token, .bytes = touched.bytes};
}
Cost cost(const HeadMatMul& op, const Touched& touched) {
  return {.flops = product_flops(op.w, live_rows(op.live, op.x.rows)), .bytes = touched.bytes};
}
// A row of the cache is key and value of every head.
Cost cost(const LatentAttend& op, const Touched& touched) {
  const uint64_t tokens = touched.indirect_bytes / op.kv.token_bytes();
  const uint64_t per_token = static_cast<uint64_t>(op.n_heads) * static_cast<uint64_t>(op.kv.key_dim + op.kv.value_dim);
  return {.flops = 2 * tokens * per_token, .bytes = touched.bytes};
}
// Three products for each pair of a row and an expert in a slot.
Cost cost(const ExpertFfn& op, const Touched& touched) {
  const uint64_t pairs = touched.indirect_bytes / op.blob.bytes;
  const uint64_t weights = 3 * static_cast<uint64_t>(op.x.cols) * static_cast<uint64_t>(op.hidden.cols);
  return {.flops = 2 * pairs * weights, .bytes = touched.bytes};
}
Cost cost(const SparseAttention& op, const Touched& touched) { return cost(op.dense(), touched); }
Cost cost(const HyperMix& op, const Touched& touched) {
  const uint64_t rows = live_rows(op.live, op.x.rows);
  const uint64_t inject = op.inject.empty() ? 0 : product_flops(op.inject, rows);
  return {.flops = product_flops(op.down, rows) + product_flops(op.up, rows) + inject, .bytes = touched.bytes};
}
// The views of the next two hold the keys of all sequences; they write one for each block, and read those before a row.
Cost cost(const IndexAppend& op, const Touched&) {
  return {.flops = 0, .bytes = static_cast<uint64_t>(op.q.rows * (2 * op.q.cols + 3 * op.k.cols)) * sizeof(float)};
}
Cost cost(const SelectBlocks& op, const Touched&) {
  uint64_t keys = 0;
  for (uint64_t r = 0; r < live_rows(op.rows.live, op.q.rows); r++) {
    keys += (static_cast<uint64_t>(op.rows.positions.data()[r]) + 1) / static_cast<uint64_t>(op.index.block);
  }
  return {.flops = 2 * keys * static_cast<uint64_t>(op.q.cols),
          .bytes = keys * static_cast<uint64_t>(op.index.keys.cols) * sizeof(float)};
}

using CostFn = Cost (*)(const void* args, const Touched& touched);
template <class... Ops>
struct Table {
  CostFn rows[sizeof...(Ops)] = {
      [](const void* args, const Touched& touched) { return cost(*static_cast<const Ops*>(args), touched); }...};
};
template <class... Ops>
constexpr Table<Ops...> make_table(OpList<Ops...>) {
  return {};
}
constexpr auto kTable = make_table(AllOps{});

}  // namespace

int64_t duration_ns(uint64_t amount, uint64_t per_s) {
  ASSERT(per_s > 0);
  const auto scaled = static_cast<unsigned __int128>(amount) * 1'000'000'000;
  const unsigned __int128 ns = (scaled + per_s - 1) / per_s;
  return ns > static_cast<unsigned __int128>(kTimeMax) ? kTimeMax : static_cast<int64_t>(ns);
}

int64_t later(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kTimeMax : std::min(sum, kTimeMax);
}

int64_t Link::reserve(int64_t ready_ns, int64_t duration_ns) {
  if (duration_ns == 0) return ready_ns;
  int64_t start = ready_ns;
  size_t at = 0;  // the new interval goes before busy_[at]
  for (; at < busy_.size(); at++) {
    if (later(start, duration_ns) <= busy_[at].begin) break;
    start = std::max(start, busy_[at].end);
  }
  busy_.insert(busy_.begin() + static_cast<std::ptrdiff_t>(at), {start, later(start, duration_ns)});
  if (at + 1 < busy_.size() && busy_[at].end == busy_[at + 1].begin) {
    busy_[at].end = busy_[at + 1].end;
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  if (at > 0 && busy_[at - 1].end == busy_[at].begin) {
    busy_[at - 1].end = busy_[at].end;
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  if (busy_.size() > kGapsMax) {
    busy_[0].end = busy_[1].end;
    busy_.erase(busy_.begin() + 1);
  }
  return start;
}

Cost cost_of(const Launch& launch, const Touched& touched) { return kTable.rows[launch.op](launch.args, touched); }

}  // namespace strata::device::sim
