// What the indirect readers touch: derived from the block table as it is when the operation runs.
#include <algorithm>
#include <utility>

#include "device/ops/attention.h"
#include "device/ops/latent.h"
#include "device/ops/sparse_attention.h"

namespace strata::device {
namespace {

// The tokens [first, last] of a row's sequence in the memory of keys or values, block by block.
void add_tokens(const RowMap& rows, int64_t row, int64_t first, int64_t last, const KvBlocks& kv, const Memory* memory,
                size_t token_bytes, bool write, RangeSink& sink) {
  const int32_t* table = rows.block_table.row(rows.slots.data()[row]);
  for (int64_t at = first; at <= last;) {
    const int64_t end = std::min(last + 1, (at / kv.block_tokens + 1) * kv.block_tokens);
    const int64_t token = int64_t{table[at / kv.block_tokens]} * kv.block_tokens + at % kv.block_tokens;
    const size_t bytes = static_cast<size_t>(end - at) * token_bytes;
    sink.add({memory, static_cast<size_t>(token) * token_bytes, bytes, 1, bytes, write});
    at = end;
  }
}

}  // namespace

void RopeAppend::footprint(RangeSink& sink) const {
  for (int64_t r = 0; r < rows.live.data()[0]; r++) {
    const int64_t position = rows.positions.data()[r];
    add_tokens(rows, r, position, position, kv, kv.k, kv.k_token_bytes(), true, sink);
    add_tokens(rows, r, position, position, kv, kv.v, kv.v_token_bytes(), true, sink);
  }
}

void Attention::footprint(RangeSink& sink) const {
  for (int64_t r = 0; r < rows.live.data()[0]; r++) {
    const int64_t last = rows.positions.data()[r];
    const int64_t first = window > 0 ? std::max<int64_t>(0, last - window + 1) : 0;
    add_tokens(rows, r, first, last, kv, kv.k, kv.k_token_bytes(), false, sink);
    add_tokens(rows, r, first, last, kv, kv.v, kv.v_token_bytes(), false, sink);
  }
}

void LatentAttend::footprint(RangeSink& sink) const {
  for (int64_t r = 0; r < rows.live.data()[0]; r++) {
    const int64_t last = rows.positions.data()[r];
    add_tokens(rows, r, last, last, kv, kv.k, kv.k_token_bytes(), true, sink);
    add_tokens(rows, r, 0, last, kv, kv.k, kv.k_token_bytes(), false, sink);
  }
}

void SparseAttention::footprint(RangeSink& sink) const {
  for (int64_t r = 0; r < rows.live.data()[0]; r++) {
    const int64_t n_complete = chosen.row(r)[0];
    const int64_t rest = (int64_t{rows.positions.data()[r]} + 1) % block;
    const auto add = [&](int64_t entry, int64_t tokens) {
      const size_t first = static_cast<size_t>(int64_t{chosen.row(r)[1 + entry]} * block);
      for (const auto& [memory, token_bytes] : {std::pair(kv.k, kv.k_token_bytes()), {kv.v, kv.v_token_bytes()}}) {
        const size_t bytes = static_cast<size_t>(tokens) * token_bytes;
        sink.add({memory, first * token_bytes, bytes, 1, bytes, false});
      }
    };
    for (int64_t e = 0; e < n_complete; e++) add(e, block);
    if (rest > 0) add(n_complete, rest);
  }
}

}  // namespace strata::device
