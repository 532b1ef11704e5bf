#include "kernels/cuda/rows.h"
#include "kernels/cuda/values.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void embed(EmbedArgs a, LiveRows rows) {
  const int64_t row = blockIdx.x;
  const int64_t unit = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (row >= *rows.live || unit * kUnitCols >= a.cols) return;
  float* y = a.y + row * a.y_stride;
  unit_values(a.type, a.table + static_cast<size_t>(a.ids[row]) * a.row_bytes, unit, a.cols,
              [&](int64_t col, const Values& values) {
                for (int i = 0; i < kValues; i++) {
                  if (col + i < a.cols) y[col + i] = values.v[i];
                }
              });
}

}  // namespace

void launch_embed(const EmbedArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const int64_t units = (args.cols + kUnitCols - 1) / kUnitCols;
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>((units + kThreads - 1) / kThreads));
  embed<<<grid, kThreads, 0, stream>>>(args, rows);
}

}  // namespace strata::kernels::cuda
