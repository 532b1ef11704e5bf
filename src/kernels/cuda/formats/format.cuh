// How kernels see a weight type: blocks whose elements come in runs of sixteen neighbours that share a scale.
//
// A format F of a quantised type has
//   kElems, kBytes     elements and bytes of a block,
//   kRuns              runs that are unpacked together because their bits lie in the same bytes: a unit,
//   kOffset            whether offsets are anything but 0,
//   kGroup             columns that share scale and offset: 16, or 32 where runs 2i and 2i + 1 of a unit are a group,
//   kSuper             whether its products want activations rounded by 256 (kernels/q8.h), else by 32,
//   column(unit, run)  where in the block a run starts,
//   unpack(block, unit, runs)  the runs of a unit.
// Units of a block are numbered so that each 128 columns (or the block) are a contiguous range of them.
#pragma once

#include "kernels/cuda/formats/bytes.cuh"
#include "quant/type.h"

namespace strata::kernels::cuda {

// Sixteen elements: element i is scale * code_i + offset, rounded once; code i is signed byte i % 4 of codes[i / 4].
struct Run {
  uint32_t codes[4];
  float scale;
  float offset;
};

template <quant::Type kType>
struct Format;

STRATA_DEVICE float run_value(const Run& run, int i) {
  const auto code = static_cast<int8_t>(run.codes[i / 4] >> (8 * (i % 4)));
  return fmaf(run.scale, static_cast<float>(code), run.offset);
}

// One run a unit, in order of columns.
struct SingleRuns {
  static constexpr int kRuns = 1;
  STRATA_DEVICE static int column(int unit, int) { return 16 * unit; }
};
// The two halves of 32 columns.
struct PairedRuns {
  static constexpr int kRuns = 2;
  STRATA_DEVICE static int column(int unit, int run) { return 32 * unit + 16 * run; }
};

}  // namespace strata::kernels::cuda
