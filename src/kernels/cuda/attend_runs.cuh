// Runs of rows that attend together: consecutive positions of one sequence.
#pragma once

#include "kernels/cuda/attention.h"

namespace strata::kernels::cuda {

// Rows [first, first + rows) of a step.
struct AttendRun {
  int64_t first;
  int rows;
  int32_t slot;
  int64_t position;  // of the first row
};
__device__ inline AttendRun run_at(const Places& places, int64_t first, int64_t end) {
  const int32_t* slots = places.slots;
  const int32_t* positions = places.positions;
  AttendRun run{first, 1, slots[first], positions[first]};
  while (first + run.rows < end && slots[first + run.rows] == run.slot &&
         positions[first + run.rows] == run.position + run.rows) {
    run.rows++;
  }
  return run;
}

// Those of its rows that stand in front of a position.
__device__ __forceinline__ AttendRun rows_before(AttendRun run, int64_t position) {
  run.rows = static_cast<int>(min(int64_t{run.rows}, max(position - run.position, int64_t{0})));
  return run;
}

// Query q of a run, with the heads of one KV head side by side for each row. Behind the last one, row is -1.
struct RunQuery {
  int64_t row;
  int head;
};
__device__ __forceinline__ RunQuery run_query(const AttendArgs& a, const AttendRun& run, int kv_head, int q) {
  const int group = a.n_heads / a.kv.n_kv_heads;
  if (q >= run.rows * group) return {-1, 0};
  return {run.first + q / group, kv_head * group + q % group};
}

// The first position that a row sees.
__device__ __forceinline__ int64_t first_seen(const AttendArgs& a, int64_t position) {
  return a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
}

}  // namespace strata::kernels::cuda
