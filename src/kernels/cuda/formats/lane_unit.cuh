// How a lane multiplies its share of a staged weight row with rounded activations: a unit of neighbouring bytes at a
// time, whose activations it keeps in registers where it meets the same unit in every row.
//
// A LaneUnit<F> has
//   kColumns           columns of a unit,
//   kAlignment         of every row in bytes,
//   row_bytes(cols)    of a rounded row as it lies in shared memory: a multiple of 16,
//   store(row, cols, col, x)  puts a lane's eight elements there; cols is a multiple of 256, zeros behind the last,
//   Inputs(row, cols, u)      the activations of unit u,
//   Weights(row, u)           the weights of unit u of a row in shared memory,
//   dot(weights, inputs, sum) sum and their products.
#pragma once

#include "kernels/cuda/formats/format.cuh"
#include "kernels/cuda/rounding.cuh"

namespace strata::kernels::cuda {

STRATA_DEVICE int dot4(uint32_t a, uint32_t b, int sum) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}

// Of any format: its own units.
template <class F>
struct LaneUnit {
  static constexpr int kColumns = 16 * F::kRuns;
  static constexpr int kAlignment = F::kBytes % 16 == 0 ? 16 : 1;
  static constexpr int kOfBlock = F::kElems / kColumns;
  static constexpr int kMerged = F::kGroup / 16;  // runs that share a scale

  // Codes with a gap behind each 64, so that lanes that read neighbouring units meet different banks; then a scale for
  // each 32 and a sum for each 16 of them.
  __host__ __device__ static constexpr int spread(int col) { return col + col / 64 * 16; }
  __host__ __device__ static int64_t row_bytes(int64_t cols) { return cols / 256 * (spread(256) + 32 + 64); }
  STRATA_DEVICE static float* scales(uint8_t* row, int cols) { return reinterpret_cast<float*>(row + spread(cols)); }

  STRATA_DEVICE static void store(uint8_t* row, int cols, int col, const RoundedEight& x) {
    *reinterpret_cast<uint2*>(row + spread(col)) = make_uint2(x.codes[0], x.codes[1]);
    float* d = scales(row, cols);
    if (col % 32 == 0) d[col / 32] = x.d;
    if (col % 16 == 0) d[cols / 32 + col / 16] = x.d * static_cast<float>(x.sum);
  }

  struct Inputs {
    uint4 codes[F::kRuns];
    float d[F::kSuper ? 1 : F::kRuns / kMerged];
    float sums[F::kOffset ? F::kRuns / kMerged : 1];
    STRATA_DEVICE Inputs(uint8_t* row, int cols, int u) {
      const int first = u / kOfBlock * F::kElems;
      const float* of_row = scales(row, cols);
      if constexpr (F::kSuper) d[0] = of_row[first / 32];
#pragma unroll
      for (int k = 0; k < F::kRuns; k++) {
        const int col = first + F::column(u % kOfBlock, k);
        codes[k] = *reinterpret_cast<const uint4*>(row + spread(col));
        if (k % kMerged != 0) continue;
        if constexpr (!F::kSuper) d[k / kMerged] = of_row[col / 32];
        const float* sum = of_row + cols / 32 + col / 16;
        if constexpr (F::kOffset) sums[k / kMerged] = kMerged == 2 ? sum[0] + sum[1] : sum[0];
      }
    }
  };
  struct Weights {
    Run runs[F::kRuns];
    STRATA_DEVICE Weights(const uint8_t* row, int u) {
      F::unpack(StagedBytes<kAlignment>{row + u / kOfBlock * F::kBytes}, u % kOfBlock, runs);
    }
  };

  STRATA_DEVICE static int dot16(const Run& run, const uint4& x, int sum) {
    return dot4(run.codes[3], x.w, dot4(run.codes[2], x.z, dot4(run.codes[1], x.y, dot4(run.codes[0], x.x, sum))));
  }
  STRATA_DEVICE static float dot(const Weights& w, const Inputs& x, float sum) {
    float scaled = F::kSuper ? 0 : sum;
#pragma unroll
    for (int k = 0; k < F::kRuns; k += kMerged) {
      int dot = dot16(w.runs[k], x.codes[k], 0);
      if constexpr (kMerged == 2) dot = dot16(w.runs[k + 1], x.codes[k + 1], dot);
      const float scale = F::kSuper ? w.runs[k].scale : w.runs[k].scale * x.d[k / kMerged];
      scaled = fmaf(scale, static_cast<float>(dot), scaled);
    }
    sum = F::kSuper ? fmaf(scaled, x.d[0], sum) : scaled;
    if constexpr (F::kOffset) {
#pragma unroll
      for (int k = 0; k < F::kRuns; k += kMerged) sum = fmaf(w.runs[k].offset, x.sums[k / kMerged], sum);
    }
    return sum;
  }
};

// Two blocks, 17 words. Activations lie as the weights do, zeros where those have scales, so that words meet words
// wherever blocks begin; and 17 is odd, so that lanes meet different banks.
template <>
struct LaneUnit<Format<quant::Type::Q8_0>> {
  static constexpr int kColumns = 64;
  static constexpr int kAlignment = 4;
  static constexpr int kBlock = 34, kWords = 17;

  __host__ __device__ static int64_t row_bytes(int64_t cols) { return cols / 32 * (kBlock + 4); }
  STRATA_DEVICE static float* scales(uint8_t* row, int cols) {
    return reinterpret_cast<float*>(row + cols / 32 * kBlock);
  }
  STRATA_DEVICE static void store(uint8_t* row, int cols, int col, const RoundedEight& x) {
    auto* to = reinterpret_cast<uint16_t*>(row + col / 32 * kBlock + 2 + col % 32);
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = static_cast<uint16_t>(x.codes[i / 2] >> (i % 2 * 16));
    if (col % 32 != 0) return;
    to[-1] = 0;
    scales(row, cols)[col / 32] = x.d;
  }

  struct Inputs {
    uint32_t codes[kWords];
    float2 d;
    STRATA_DEVICE Inputs(uint8_t* row, int cols, int u) {
      const auto* from = reinterpret_cast<const uint32_t*>(row) + u * kWords;
#pragma unroll
      for (int i = 0; i < kWords; i++) codes[i] = from[i];
      d = reinterpret_cast<const float2*>(scales(row, cols))[u];
    }
  };
  struct Weights {
    uint32_t words[kWords];
    STRATA_DEVICE Weights(const uint8_t* row, int u) {
      const auto* from = reinterpret_cast<const uint32_t*>(row) + u * kWords;
#pragma unroll
      for (int i = 0; i < kWords; i++) words[i] = from[i];
    }
  };
  STRATA_DEVICE static float dot(const Weights& w, const Inputs& x, float sum) {
    int first = 0, second = 0;
#pragma unroll
    for (int i = 0; i < 9; i++) first = dot4(w.words[i], x.codes[i], first);
#pragma unroll
    for (int i = 9; i < kWords; i++) second = dot4(w.words[i], x.codes[i], second);
    sum = fmaf(half_value(w.words[0] & 0xFFFF) * x.d.x, static_cast<float>(first), sum);
    return fmaf(half_value(w.words[8] >> 16) * x.d.y, static_cast<float>(second), sum);
  }
};

// Sixteen columns of each plane of half a block: its bytes serve no other lane.
template <>
struct LaneUnit<Format<quant::Type::Q6_K>> {
  static constexpr int kColumns = 64;
  static constexpr int kAlignment = 2;
  static constexpr int kBlock = 210, kPlanes = 4;

  // Codes unit by unit with a gap behind each, a scale for each 256, and -32 times the sum of each 16 codes.
  __host__ __device__ static int64_t row_bytes(int64_t cols) { return cols / 256 * (4 * 80 + 16 + 64); }
  STRATA_DEVICE static float* scales(uint8_t* row, int cols) { return reinterpret_cast<float*>(row + cols / 64 * 80); }
  STRATA_DEVICE static int* offsets(uint8_t* row, int cols) {
    return reinterpret_cast<int*>(row + cols / 256 * (4 * 80 + 16));
  }
  STRATA_DEVICE static void store(uint8_t* row, int cols, int col, const RoundedEight& x) {
    const int u = col / 128 * 2 + col / 16 % 2, plane = col / 32 % 4;
    *reinterpret_cast<uint2*>(row + u * 80 + plane * 16 + col % 16) = make_uint2(x.codes[0], x.codes[1]);
    if (col % 16 == 0) offsets(row, cols)[u * kPlanes + plane] = -32 * x.sum;
    if (col % 256 == 0) scales(row, cols)[col / 256] = x.d;
  }

  struct Inputs {
    uint4 codes[kPlanes];
    int4 offsets;
    float d;
    STRATA_DEVICE Inputs(uint8_t* row, int cols, int u) {
#pragma unroll
      for (int i = 0; i < kPlanes; i++) codes[i] = *reinterpret_cast<const uint4*>(row + u * 80 + 16 * i);
      offsets = *reinterpret_cast<const int4*>(LaneUnit::offsets(row, cols) + u * kPlanes);
      d = scales(row, cols)[u / 4];
    }
  };
  struct Weights {
    uint32_t codes[kPlanes][4];
    int scales[kPlanes];
    float d;
    STRATA_DEVICE Weights(const uint8_t* row, int u) {
      const int half = u / 2 % 2, side = u % 2;
      const StagedBytes<1> block{row + u / 4 * kBlock};
      const Words4 low = load16(block + 64 * half + 16 * side), high = load16(block + 64 * half + 32 + 16 * side);
      const Words4 upper = load16(block + 128 + 32 * half + 16 * side);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        codes[0][i] = low_nibbles(low.w[i]) | (upper.w[i] << 4 & 0x30303030u);
        codes[1][i] = low_nibbles(high.w[i]) | (upper.w[i] << 2 & 0x30303030u);
        codes[2][i] = high_nibbles(low.w[i]) | (upper.w[i] & 0x30303030u);
        codes[3][i] = high_nibbles(high.w[i]) | (upper.w[i] >> 2 & 0x30303030u);
      }
      uint32_t both[2];
      load8(block + 192 + 8 * half, both);
#pragma unroll
      for (int i = 0; i < kPlanes; i++) {
        scales[i] = static_cast<int8_t>(both[i / 2] >> (8 * side + i % 2 * 16));
      }
      d = half_value(*reinterpret_cast<const uint16_t*>(block.at + 208));
    }
  };
  STRATA_DEVICE static float dot(const Weights& w, const Inputs& x, float sum) {
    const int offsets[kPlanes] = {x.offsets.x, x.offsets.y, x.offsets.z, x.offsets.w};
    int scaled = 0;
#pragma unroll
    for (int i = 0; i < kPlanes; i++) {
      const uint4& c = x.codes[i];
      int dot = dot4(w.codes[i][0], c.x, offsets[i]);
      dot = dot4(w.codes[i][3], c.w, dot4(w.codes[i][2], c.z, dot4(w.codes[i][1], c.y, dot)));
      scaled += w.scales[i] * dot;
    }
    return fmaf(w.d * x.d, static_cast<float>(scaled), sum);
  }
};

}  // namespace strata::kernels::cuda
