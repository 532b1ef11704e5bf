#include "kernels/cuda/launch.h"

#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

int compute_major() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major;
}

__global__ void nothing() {}

}  // namespace

bool starts_early() { return compute_major() >= 9; }
void launch_nothing(cudaStream_t stream) { nothing<<<1, 1, 0, stream>>>(); }
bool has_float_cores() { return compute_major() >= 8; }

}  // namespace strata::kernels::cuda
