// Weights of any type as float32, for the kernels that are not instantiated for each type.
#pragma once

#include "kernels/cuda/formats/bits.cuh"
#include "kernels/cuda/formats/blocks32.cuh"
#include "kernels/cuda/formats/iq.cuh"
#include "kernels/cuda/formats/k.cuh"

namespace strata::kernels::cuda {

// Types whose elements stand alone.
__host__ __device__ inline bool is_plain(quant::Type type) {
  return type == quant::Type::F32 || type == quant::Type::F16 || type == quant::Type::BF16;
}

// Elements that are decoded together.
inline constexpr int kValues = 16;

struct Values {
  float v[kValues];
};

// Element i of a row of a plain type.
STRATA_DEVICE float plain_value(quant::Type type, const uint8_t* row, int64_t i) {
  if (type == quant::Type::F32) return float_of_bits(load4(row + 4 * i));
  const uint32_t bits = load2(row + 2 * i);
  return type == quant::Type::F16 ? half_value(bits) : float_of_bits(bits << 16);
}

// Calls body(format) with the Format of a quantised type.
template <class Body>
STRATA_DEVICE void with_format(quant::Type type, const Body& body) {
  using quant::Type;
  switch (type) {
    case Type::Q4_0: return body(Format<Type::Q4_0>());
    case Type::Q4_1: return body(Format<Type::Q4_1>());
    case Type::Q5_0: return body(Format<Type::Q5_0>());
    case Type::Q5_1: return body(Format<Type::Q5_1>());
    case Type::Q8_0: return body(Format<Type::Q8_0>());
    case Type::Q2_K: return body(Format<Type::Q2_K>());
    case Type::Q3_K: return body(Format<Type::Q3_K>());
    case Type::Q4_K: return body(Format<Type::Q4_K>());
    case Type::Q5_K: return body(Format<Type::Q5_K>());
    case Type::Q6_K: return body(Format<Type::Q6_K>());
    case Type::IQ1_S: return body(Format<Type::IQ1_S>());
    case Type::IQ1_M: return body(Format<Type::IQ1_M>());
    case Type::IQ2_XXS: return body(Format<Type::IQ2_XXS>());
    case Type::IQ2_XS: return body(Format<Type::IQ2_XS>());
    case Type::IQ2_S: return body(Format<Type::IQ2_S>());
    case Type::IQ3_XXS: return body(Format<Type::IQ3_XXS>());
    case Type::IQ3_S: return body(Format<Type::IQ3_S>());
    case Type::IQ4_NL: return body(Format<Type::IQ4_NL>());
    case Type::IQ4_XS: return body(Format<Type::IQ4_XS>());
    case Type::MXFP4: return body(Format<Type::MXFP4>());
    case Type::NVFP4: return body(Format<Type::NVFP4>());
    case Type::TQ1_0: return body(Format<Type::TQ1_0>());
    case Type::TQ2_0: return body(Format<Type::TQ2_0>());
    case Type::Q1_0: return body(Format<Type::Q1_0>());
    case Type::Q2_0: return body(Format<Type::Q2_0>());
    default: return;
  }
}

// Columns that are decoded together: each 128 columns are two of these units, in the format's order.
inline constexpr int kUnitCols = 64;

// Calls sink(col, values) for the runs of a row's unit, as quant's decoder of the type makes them; zeros behind the
// last of the row's `cols` elements.
template <class Sink>
STRATA_DEVICE void unit_values(quant::Type type, const uint8_t* row, int64_t unit, int64_t cols, const Sink& sink) {
  if (is_plain(type)) {
    for (int r = 0; r < kUnitCols / kValues; r++) {
      const int64_t col = kUnitCols * unit + kValues * r;
      Values out{};
      for (int i = 0; i < kValues; i++) {
        if (col + i < cols) out.v[i] = plain_value(type, row, col + i);
      }
      sink(col, out);
    }
    return;
  }
  with_format(type, [&](auto format) {
    using F = decltype(format);
    constexpr int kColumns = kValues * F::kRuns;
    constexpr int kOfBlock = F::kElems / kColumns;
    for (int i = 0; i < kUnitCols / kColumns; i++) {
      const int64_t own = unit * (kUnitCols / kColumns) + i;
      const int64_t block = own / kOfBlock;
      const int within = static_cast<int>(own % kOfBlock);
      Run runs[F::kRuns] = {};
      if (own * kColumns < cols) F::unpack(row + block * F::kBytes, within, runs);
      for (int r = 0; r < F::kRuns; r++) {
        Values out;
        for (int e = 0; e < kValues; e++) out.v[e] = run_value(runs[r], e);
        sink(block * F::kElems + F::column(within, r), out);
      }
    }
  });
}

}  // namespace strata::kernels::cuda
