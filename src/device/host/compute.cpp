#include "device/host/compute.h"

#include <algorithm>
#include <new>

#include "base/format.h"

namespace strata::device::host {

Status Compute::reserve_scratch(int64_t floats) {
  if (floats <= scratch_floats_) return {};
  std::vector<std::unique_ptr<float[]>> grown(static_cast<size_t>(pool_.n_threads()));
  for (auto& area : grown) {
    area.reset(new (std::nothrow) float[static_cast<size_t>(floats)]);
    if (!area) {
      return Error{ErrorCode::kNoMemory, format("cannot allocate {} of scratch for each of {} threads",
                                                format_bytes(static_cast<uint64_t>(floats) * 4), grown.size())};
    }
  }
  scratch_ = std::move(grown);
  scratch_floats_ = floats;
  return {};
}

float* Compute::scratch(int worker, int64_t floats) {
  ASSERT(floats <= scratch_floats_);
  return scratch_[static_cast<size_t>(worker)].get();
}

int64_t Compute::grain(int64_t n_items, int64_t least) const {
  constexpr int64_t kPiecesPerThread = 4;
  const int64_t pieces = int64_t{pool_.n_threads()} * kPiecesPerThread;
  return std::max(least, (n_items + pieces - 1) / pieces);
}

void matmul(Compute& compute, const kernels::Matrix& w, const float* x, int64_t x_stride, int64_t n_tokens, float* y,
            int64_t y_stride) {
  compute.pool().for_each_shrinking(w.rows, kRowGrain, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = compute.scratch(worker, matmul_scratch(w.cols));
    for (int64_t t = 0; t < n_tokens; t += kTokenTile) {
      compute.kernels().matmul(w, begin, end, x + t * x_stride, x_stride, std::min(kTokenTile, n_tokens - t),
                               y + t * y_stride, y_stride, scratch);
    }
  });
}

}  // namespace strata::device::host
