// Copies from global to shared memory that need no registers on their way (from
// sm_80 on; before, they are loads and stores): a warp can have kilobytes under
// way, which is what it takes to read at the rate of the memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise.cuh"

namespace strata::kernels::cuda {

// Copies sixteen bytes; both addresses are multiples of sixteen.
__device__ __forceinline__ void stage16(uint8_t* to, const uint8_t* from) {
#if __CUDA_ARCH__ >= 800
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
#else
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#endif
}

// All copies of the calling thread are there; a barrier makes them so for
// others.
__device__ __forceinline__ void wait_for_staged() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// How far into sixteen bytes an address is.
__host__ __device__ __forceinline__ unsigned into_sixteen(const uint8_t* p) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) & 15);
}

// Room in which `bytes` from any address can be staged with the words behind
// them that unaligned loads read.
__host__ __device__ __forceinline__ int64_t staged_bytes(int64_t bytes) { return (bytes + 15 + 4 + 15) / 16 * 16; }

// Has the copy engine bring sixteens that are read once in a step: they leave the
// second-level cache first, so that code, tables and activations stay there
// while a step's weights go through.
__device__ __forceinline__ void copy_once(unsigned shared, const uint8_t* from, unsigned bytes, unsigned barrier) {
#if __CUDA_ARCH__ >= 900
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
#endif
}

// What a warp stages for itself. From sm_90 on one lane has the copy engine do
// it, so that the copies take neither instructions of the others nor places in
// the queue that shuffles and shared memory go through.
class WarpStage {
 public:
  // The barrier lies in shared memory and is this warp's alone.
  __device__ __forceinline__ WarpStage(uint64_t& barrier, int lane)
      : barrier_(static_cast<unsigned>(__cvta_generic_to_shared(&barrier))), lane_(lane) {
#if __CUDA_ARCH__ >= 900
    if (lane_ == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_) : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
#endif
  }

  // Begins to copy `bytes` bytes, whole sixteens around them, to where `to` is
  // a multiple of sixteen. Byte i of them comes to to[into_sixteen(from) + i].
  __device__ __forceinline__ void copy(uint8_t* to, const uint8_t* from, unsigned bytes) const {
    const unsigned into = into_sixteen(from);
    const unsigned whole = (into + bytes + 15) / 16 * 16;
    const uint8_t* aligned = from - into;
#if __CUDA_ARCH__ >= 900
    if (lane_ != 0) return;
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier_), "r"(whole) : "memory");
    copy_once(shared, aligned, whole, barrier_);
#else
    for (unsigned i = 16 * lane_; i < whole; i += 16 * kWarp) stage16(to + i, aligned + i);
#endif
  }

  // Behind the last copy.
  __device__ __forceinline__ void end() const {
#if __CUDA_ARCH__ >= 900
    if (lane_ == 0) {
      asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(barrier_) : "memory");
    }
#endif
  }

  // All copies are there, for all lanes. It ends: what the barrier waits for is
  // what copy() has asked for.
  __device__ __forceinline__ void wait() const {
#if __CUDA_ARCH__ >= 900
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 "
          "p, [%1], 0; selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(barrier_)
          : "memory");
    }
#else
    wait_for_staged();
    __syncwarp();
#endif
  }

 private:
  unsigned barrier_;
  int lane_;
};

}  // namespace strata::kernels::cuda
