#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/route.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) route_row(const __grid_constant__ RouteArgs a, LiveRows rows) {
  extern __shared__ __align__(16) double scratch[];
  start_kernel_behind();
  wait_for_kernel_before();
  const int64_t row = blockIdx.x;
  if (row >= *rows.live) return;
  const RouteScratch s(scratch, a.params.n_experts);
  for (int e = threadIdx.x; e < a.params.n_experts; e += kThreads) s.logits[e] = a.logits[row * a.logits_stride + e];
  __syncthreads();
  route_logits<kThreads>(a, row, s);
}

}  // namespace

void launch_route(const RouteArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  launch_after(route_row, dim3(static_cast<unsigned>(rows.rows)), kThreads, route_scratch_bytes(args.params.n_experts),
               stream, args, rows);
}

}  // namespace strata::kernels::cuda
