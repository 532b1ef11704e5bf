#include "kernels/cuda/flags.h"

#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

__global__ void raise(uint32_t* word, uint32_t value) {
  start_kernel_behind();
  wait_for_kernel_before();
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__global__ void await(const uint32_t* word, uint32_t value) {
  start_kernel_behind();
  wait_for_kernel_before();
  uint32_t seen;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
  } while (static_cast<int32_t>(seen - value) < 0);
}

}  // namespace

void launch_raise(uint32_t* word, uint32_t value, cudaStream_t stream) {
  launch_after(raise, dim3(1), 1, 0, stream, word, value);
}

void launch_await(const uint32_t* word, uint32_t value, cudaStream_t stream) {
  launch_after(await, dim3(1), 1, 0, stream, word, value);
}

}  // namespace strata::kernels::cuda
