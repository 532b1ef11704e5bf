// Products of 8-bit integers on the tensor cores, and the loads of their operands from shared memory.
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

}  // namespace strata::kernels::cuda
