// The segments of a step, for operations of the host.
#pragma once

#include "device/ops/op.h"

namespace strata::device::host {

struct Segment {
  int64_t slot, first, rows;
};
inline Segment segment(const SegmentMap& map, int64_t i) {
  const int32_t* s = map.segments.row(i);
  return {s[0], s[1], s[2]};
}

}  // namespace strata::device::host
