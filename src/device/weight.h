// A matrix of a model in GGUF block bytes, on one device. Operations read the blocks in place.
#pragma once

#include "device/memory.h"
#include "kernels/kernels.h"
#include "quant/type.h"

namespace strata::device {

struct Weight {
  Memory* memory = nullptr;
  size_t offset = 0;
  quant::Type type = quant::Type::F32;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs, contiguous
  size_t row_bytes = 0;
  // MatMul rounds activations to 8 bits (kernels/q8.h); only for types that have integer products.
  bool round_activations = false;

  bool empty() const { return memory == nullptr; }
  Range range() const { return {memory, offset, row_bytes, rows, row_bytes, false}; }
  // For devices whose memory the host can read.
  kernels::Matrix matrix() const {
    return {type, reinterpret_cast<const uint8_t*>(memory->address() + offset), rows, cols, row_bytes};
  }
};

}  // namespace strata::device
