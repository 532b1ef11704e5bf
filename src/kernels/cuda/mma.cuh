// Products of 8-bit integers, halves and floats on the tensor cores, and how their operands get to shared memory and
// from it.
//
// For C[16][8] += A[16][k] B[k][8] a lane l holds, with g = l / 4 and t = l % 4: of each 16 columns of A the bytes
// [4t, 4t + 4) of rows g and g + 8, of B those of column g, of C the elements (g, 2t), (g, 2t + 1), (g + 8, 2t) and
// (g + 8, 2t + 1).
#pragma once

#include <cstdint>

namespace strata::kernels::cuda {

// Four matrices of 8 rows of 16 bytes; lane l gives the address of row l % 8 of matrix l / 8, and gets bytes
// [4t, 4t + 4) of row g of each.
__device__ __forceinline__ void load_matrices(const void* row, uint32_t (&out)[4]) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at));
}

// k = 16. Cores before sm_80 know half the rows at a time.
__device__ __forceinline__ void multiply16(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(c[0]), "+r"(c[1])
      : "r"(a0), "r"(b));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(c[2]), "+r"(c[3])
      : "r"(a1), "r"(b));
#endif
}

// k = 32: a[0], a[1] are rows g and g + 8 of the first 16 columns, a[2], a[3] of the others.
__device__ __forceinline__ void multiply32(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  multiply16(c, a[0], a[1], b0);
  multiply16(c, a[2], a[3], b1);
#endif
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(const void* row, uint32_t (&out)[4]) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at));
}

// Products of halves, k = 16, in float32: a[0] and a[1] are columns [2t, 2t + 2) of rows g and g + 8, a[2] and a[3]
// those eight further on; b0 and b1 are rows [2t, 2t + 2) of column g and those eight further on. From sm_80 on.
__device__ __forceinline__ void multiply_halves(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// The nearest float with ten bits of fraction, as products of such take them. From sm_80 on.
__device__ __forceinline__ uint32_t short_float(float x) {
  uint32_t bits = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
  return bits;
}
// Products of floats that are used to their tenth bit, k = 8, in float32: a[0] and a[1] are column t of rows g and
// g + 8, a[2] and a[3] column t + 4; b0 and b1 are rows t and t + 4 of column g. From sm_80 on.
__device__ __forceinline__ void multiply_short_floats(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Copies of sixteen aligned bytes to shared memory that threads don't wait for, or zeros unless `there`. From sm_80 on.
__device__ __forceinline__ void copy_sixteen(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
#endif
}
__device__ __forceinline__ void copy_four(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(there ? 4 : 0) : "memory");
#endif
}
// Ends a group of a thread's copies.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all groups of the thread but the last kLeft are there.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace strata::kernels::cuda
