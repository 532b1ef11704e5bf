// Clusters of blocks that start together and see each other's shared memory (from sm_90 on).
#pragma once

#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {

// As launch_after(); `of_cluster` neighbouring blocks of a row of the grid are a cluster, 1 where there are none.
template <class... Params, class... Args>
void launch_clusters_after(void (*kernel)(Params...), dim3 grid, int threads, size_t shared, int of_cluster,
                           cudaStream_t stream, const Args&... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(of_cluster);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !starts_early() ? 0 : of_cluster > 1 ? 2 : 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

// Barriers of a cluster of more than one block: what is stored before the arrival is seen behind the wait.
__device__ __forceinline__ void arrive_at_cluster(int of_cluster) {
#if __CUDA_ARCH__ >= 900
  if (of_cluster > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster(int of_cluster) {
#if __CUDA_ARCH__ >= 900
  if (of_cluster > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// What a block of the cluster has where `at` is in this one's shared memory; where there are no clusters, this one.
__device__ __forceinline__ unsigned place_in_block(const float* at, int block) {
  auto there = static_cast<unsigned>(__cvta_generic_to_shared(at));
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(there), "r"(block));
#endif
  return there;
}
__device__ __forceinline__ float load_of_block(const float* at, int block) {
#if __CUDA_ARCH__ >= 900
  float x;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(place_in_block(at, block)) : "memory");
  return x;
#else
  return *at;
#endif
}
__device__ __forceinline__ float4 load4_of_block(const float* at, int block) {
#if __CUDA_ARCH__ >= 900
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(place_in_block(at, block))
               : "memory");
  return x;
#else
  return *reinterpret_cast<const float4*>(at);
#endif
}

}  // namespace strata::kernels::cuda
