// Matrix-vector products of float32 activations: the float path, and types that have no integer products.
#include "kernels/cuda/matvec.cuh"
#include "kernels/cuda/values.cuh"

namespace strata::kernels::cuda {
namespace {

// Float rows in shared memory, with a gap after each 16 floats so that lanes which read 16 neighbours each meet
// different banks.
template <int kR>
struct FloatRows {
  static constexpr int kRows = kR;
  static constexpr int kLanes = kWarp;
  static constexpr int kRowFloatsPer256 = 256 / 16 * 20;
  static constexpr int kBytesPer256 = kRows * kRowFloatsPer256 * 4;

  struct Held {};  // weights are loaded where they are multiplied
  static constexpr bool kHeldEarly = false;
  static constexpr int kBlocks = 2;
  __device__ static void hold(const WeightRows&, int, int, int, int, Held&) {}

  __device__ static float* row_at(uint4* shared, int chunk, int r) {
    return reinterpret_cast<float*>(shared) + r * (chunk / 256 * kRowFloatsPer256);
  }
  __device__ static int64_t place(int64_t col) { return col + col / 16 * 4; }

  __device__ static void fill(const Product& p, int64_t first, int n, int c0, int cols, int chunk,
                              uint4* shared) {
    for (int r = 0; r < kRows; r++) {
      float* to = row_at(shared, chunk, r);
      const float* from = r < n ? p.x + (first + r) / p.x_share * p.x_stride + c0 : nullptr;
      const int64_t padded = (cols + 255) / 256 * 256;
      for (int64_t col = threadIdx.x; col < padded; col += kMatVecThreads) {
        to[place(col)] = from != nullptr && col < cols ? from[col] : 0;
      }
    }
  }

  // kCount neighbours within a run of 16, kCount a multiple of 4.
  template <int kCount>
  __device__ static void add_values(const float* v, int64_t col, int chunk, uint4* shared, float* sums) {
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const float* x = row_at(shared, chunk, r) + place(col);
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(x + i);
        sums[r] = fmaf(v[i], four.x, sums[r]);
        sums[r] = fmaf(v[i + 1], four.y, sums[r]);
        sums[r] = fmaf(v[i + 2], four.z, sums[r]);
        sums[r] = fmaf(v[i + 3], four.w, sums[r]);
      }
    }
  }
};

// Any quantised type.
template <int kR>
struct MatVecDecoded : FloatRows<kR> {
  __device__ static void add(quant::Type type, const WeightRows& rows, int c0, int cols, int chunk,
                             uint4* shared, int begin, int step, const typename FloatRows<kR>::Held&,
                             float (&sums)[kTogether * kR]) {
    const int64_t units = (cols + kUnitCols - 1) / kUnitCols;
    for (int64_t u = begin; u < units; u += step) {
#pragma unroll
      for (int o = 0; o < kTogether; o++) {
        unit_values(type, rows.at[o], c0 / kUnitCols + u, c0 + cols, [&](int64_t col, const Values& values) {
          FloatRows<kR>::template add_values<kValues>(values.v, col - c0, chunk, shared, sums + o * kR);
        });
      }
    }
  }
};

// Eight neighbours of a plain row.
template <quant::Type kType>
__device__ __forceinline__ void load_plain(const uint8_t* row, int64_t col, int64_t cols, float (&v)[8]) {
  if (col + 8 > cols) {
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = col + i < cols ? plain_value(kType, row, col + i) : 0;
    return;
  }
  if constexpr (kType == quant::Type::F32) {
    const Words4 a = load16(row + 4 * col), b = load16(row + 4 * col + 16);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      v[i] = float_of_bits(a.w[i]);
      v[4 + i] = float_of_bits(b.w[i]);
    }
  } else {
    const Words4 pairs = load16(row + 2 * col);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const uint32_t bits = pairs.w[i / 2] >> (i % 2 * 16) & 0xFFFF;
      v[i] = kType == quant::Type::F16 ? half_value(bits) : float_of_bits(bits << 16);
    }
  }
}

template <quant::Type kType, int kR>
struct MatVecPlain : FloatRows<kR> {
  __device__ static void add(quant::Type, const WeightRows& rows, int c0, int cols, int chunk,
                             uint4* shared, int begin, int step, const typename FloatRows<kR>::Held&,
                             float (&sums)[kTogether * kR]) {
#pragma unroll 2
    for (int64_t col = begin * 8; col < cols; col += step * 8) {
      float v[kTogether][8];
#pragma unroll
      for (int o = 0; o < kTogether; o++) load_plain<kType>(rows.at[o], c0 + col, c0 + cols, v[o]);
#pragma unroll
      for (int o = 0; o < kTogether; o++) {
        FloatRows<kR>::template add_values<8>(v[o], col, chunk, shared, sums + o * kR);
      }
    }
  }
};

template <int kR>
void launch_rows(const Product& p, int n_sms, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::F32: return launch_matvec_as<MatVecPlain<Type::F32, kR>>(p, n_sms, stream);
    case Type::F16: return launch_matvec_as<MatVecPlain<Type::F16, kR>>(p, n_sms, stream);
    case Type::BF16: return launch_matvec_as<MatVecPlain<Type::BF16, kR>>(p, n_sms, stream);
    default: return launch_matvec_as<MatVecDecoded<kR>>(p, n_sms, stream);
  }
}

}  // namespace

void launch_matvec_float(const Product& p, int n_sms, cudaStream_t stream) {
  if (p.experts.slot_of != nullptr || p.max_items == 1) return launch_rows<1>(p, n_sms, stream);
  launch_rows<4>(p, n_sms, stream);
}

}  // namespace strata::kernels::cuda
