#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {

bool starts_early() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major >= 9;
}

}  // namespace strata::kernels::cuda
