#include "device/ops/moe.h"

namespace strata::device {
namespace {

void check_matrix(const ExpertMatrix& m, int64_t rows, int64_t cols, size_t blob_bytes) {
  ASSERT(m.rows == rows);
  ASSERT(m.cols == cols);
  ASSERT(m.offset + static_cast<size_t>(m.rows) * m.row_bytes <= blob_bytes);
  const auto within = [&](int64_t offset, int64_t floats) {
    return offset < 0 || static_cast<size_t>(offset + floats * int64_t{sizeof(float)}) <= blob_bytes;
  };
  ASSERT(within(m.bias_offset, m.rows));
  ASSERT(within(m.scale_offset, 1));
}

}  // namespace

void ExpertFfn::check() const {
  const int64_t pairs = ids.rows * ids.cols;
  const int64_t dim = x.cols;
  const int64_t ffn = hidden.cols;
  ASSERT(x.rows == ids.rows);
  check_matrix(blob.gate, ffn, dim, blob.bytes);
  check_matrix(blob.up, ffn, dim, blob.bytes);
  check_matrix(blob.down, dim, ffn, blob.bytes);
  ASSERT(inputs.rows >= pairs);
  ASSERT(inputs.cols >= dim);
  ASSERT(inputs.cols >= ffn);
  ASSERT(hidden.rows >= pairs);
  ASSERT(groups.cols >= expert_group_ints(pairs, slot_of.cols));
  ASSERT(y.rows >= pairs);
  ASSERT(y.cols == dim);
  ASSERT(!overlap(x, y));
}

// A blob once per pair that is computed from it: the same range twice says nothing new, and nothing wrong.
void ExpertFfn::footprint(RangeSink& sink) const {
  for (int64_t r = 0; r < live.data()[0]; r++) {
    for (int64_t j = 0; j < ids.cols; j++) {
      const int32_t slot = slot_of.data()[ids.row(r)[j]];
      if (slot < 0) continue;
      const auto offset = static_cast<size_t>(slots.offsets.data()[slot]);
      sink.add({slots.memory, offset, blob.bytes, 1, blob.bytes, false});
    }
  }
}

}  // namespace strata::device
