// A matrix of a model in GGUF block bytes, on one device. Operations read the blocks in place.
#pragma once

#include "device/memory.h"
#include "kernels/kernels.h"
#include "quant/type.h"

namespace strata::device {

// How MatMul rounds activations (kernels/q8.h); other than not at all only for types that have integer products.
enum class Rounding : uint8_t {
  kNone,
  kOnce,   // to 8 bits
  kTwice,  // to 8 bits, and what that leaves to 8 bits again: about 15 bits, for twice the arithmetic
};

struct Weight {
  Memory* memory = nullptr;
  size_t offset = 0;
  quant::Type type = quant::Type::F32;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs, contiguous
  size_t row_bytes = 0;
  Rounding rounding = Rounding::kNone;

  // For the matrices whose inputs lose the most by rounding, in the measure of what it does to the logits.
  void round_finely() {
    if (rounding == Rounding::kOnce) rounding = Rounding::kTwice;
  }

  bool empty() const { return memory == nullptr; }
  Range range() const { return {memory, offset, row_bytes, rows, row_bytes, false}; }
  // For devices whose memory the host can read.
  kernels::Matrix matrix() const {
    return {type, reinterpret_cast<const uint8_t*>(memory->address() + offset), rows, cols, row_bytes};
  }
};

}  // namespace strata::device
