#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

int compute_major() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major;
}

}  // namespace

bool starts_early() { return compute_major() >= 9; }
bool has_float_cores() { return compute_major() >= 8; }

}  // namespace strata::kernels::cuda
