// The segments of a step, for the cases of operations that go through them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "device/op_case.h"

namespace strata::test {

struct Segment {
  int32_t slot, first, rows;
};

// Three segments of different lengths, with a row between them that belongs to none.
struct Segments {
  static constexpr int64_t kSlots = 5;
  Segments(OpCase& c, std::vector<Segment> segments)
      : list(std::move(segments)),
        count(c.count_grid()),
        table(c.grid<int32_t>(static_cast<int64_t>(list.size()) + 1, 3)) {}
  void fill() const {
    count->at(0, 0) = static_cast<int32_t>(list.size());
    for (size_t i = 0; i < list.size(); i++) {
      table->set_row(static_cast<int64_t>(i), {list[i].slot, list[i].first, list[i].rows});
    }
  }
  int64_t rows() const { return list.back().first + list.back().rows + 1; }
  device::SegmentMap map() const { return {count->view(), table->view()}; }

  std::vector<Segment> list;
  std::shared_ptr<Grid<int32_t>> count, table;
};
inline const std::vector<Segment> kThreeSegments = {{3, 0, 4}, {0, 4, 1}, {2, 6, 7}};

}  // namespace strata::test
