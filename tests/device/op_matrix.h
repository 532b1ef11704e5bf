// A matrix among the inputs of a case of an operation.
#pragma once

#include "device/op_case.h"
#include "device/random_weights.h"

namespace strata::test {

// A matrix of the given type, packed.
struct Matrix {
  Matrix(OpCase& c, quant::Type matrix_type, int64_t matrix_rows, int64_t matrix_cols)
      : type(matrix_type), rows(matrix_rows), cols(matrix_cols),
        bytes(c.packed<uint8_t>(rows, static_cast<int64_t>(quant::row_bytes(type, static_cast<size_t>(cols))))) {}
  void fill(Random& random) const {
    const std::vector<uint8_t> all = random_weights(type, static_cast<size_t>(rows * cols), random);
    std::memcpy(bytes->row(0), all.data(), all.size());
  }
  std::vector<float> values() const { return decoded(type, bytes->row(0), static_cast<size_t>(rows * cols)); }
  operator device::Weight() const {
    return {bytes->memory(), 0, type, rows, cols, static_cast<size_t>(bytes->cols())};
  }

  quant::Type type;
  int64_t rows, cols;
  std::shared_ptr<Grid<uint8_t>> bytes;
};

// What rounding may do to a product: one rounding a term at most, of the size of all terms together.
inline double product_size(const float* w, const float* x, int64_t n) {
  double size = 0;
  for (int64_t i = 0; i < n; i++) size += std::abs(double{w[i]} * x[i]);
  return size;
}

}  // namespace strata::test
