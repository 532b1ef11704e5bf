// Launches that overlap with what stands in front of them on the stream (programmatic dependent launch, from sm_90 on):
// a kernel launched by launch_after() may start when every block of the kernel before has called start_kernel_behind().
// It must call wait_for_kernel_before() in every thread before it reads or writes what others do, and before it ends,
// or the kernels behind it would not be ordered behind those in front. Until then it may ask for weights, which no
// kernel writes.
#pragma once

#include <cuda_runtime_api.h>

namespace strata::kernels::cuda {

__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void start_kernel_behind() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether the device of the calling thread can start kernels early.
bool starts_early();
// Whether its tensor cores multiply floats and halves.
bool has_float_cores();

template <class... Params, class... Args>
void launch_after(void (*kernel)(Params...), dim3 grid, int threads, size_t shared, cudaStream_t stream,
                  const Args&... args) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = starts_early() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

}  // namespace strata::kernels::cuda
