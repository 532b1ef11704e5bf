#include "device/ops/moe.h"

#include <algorithm>

#include "device/ops/share.h"

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
  ASSERT(slots.linked.empty() == slots.linked_at.empty());
  ASSERT(weights.empty() == sum.empty());
  if (weights.empty()) return;
  ASSERT(weights.cols == ids.cols);
  ASSERT(sum.cols == dim);
  ASSERT(sum.rows >= ids.rows);
  ASSERT(!overlap(sum, x));
  ASSERT(!overlap(sum, y));
}

// A blob once per pair that is computed from it: the same range twice says nothing new, and nothing wrong.
void ExpertFfn::footprint(RangeSink& sink) const {
  for (int64_t r = 0; r < live.data()[0]; r++) {
    for (int64_t j = 0; j < ids.cols; j++) {
      const int32_t expert = ids.row(r)[j];
      const int32_t slot = slot_of.data()[expert];
      if (slot < 0) continue;
      if (slot == kLinkedPlace) {
        sink.add(linked_range(slots.linked, slots.linked_at.data()[expert], blob.bytes));
      } else {
        const auto offset = static_cast<size_t>(slots.offsets.data()[slot]);
        sink.add({slots.memory, offset, blob.bytes, 1, blob.bytes, false});
      }
    }
  }
}

void FetchExperts::footprint(RangeSink& sink) const {
  for (int64_t e = 0; e < place_of.cols; e++) {
    if (place_of.data()[e] != kLinkedPlace) continue;
    sink.add(linked_range(linked, linked_at.data()[e], static_cast<size_t>(blob_bytes)));
  }
}

Range linked_range(std::span<const Memory* const> memories, int64_t at, size_t bytes) {
  const auto address = static_cast<uintptr_t>(at);
  const auto holds = [&](const Memory* memory) {
    const auto begin = reinterpret_cast<uintptr_t>(memory->address());
    return address >= begin && memory->holds(address - begin, bytes);
  };
  const auto found = std::find_if(memories.begin(), memories.end(), holds);
  ASSERT(found != memories.end());
  return {*found, address - reinterpret_cast<uintptr_t>((*found)->address()), bytes, 1, bytes, false};
}

}  // namespace strata::device
