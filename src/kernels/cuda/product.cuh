// What the kernels of products share: which items a block serves and what becomes of their sums.
#pragma once

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/formats/bytes.cuh"
#include "kernels/cuda/product.h"

namespace strata::kernels::cuda {

__device__ __forceinline__ int64_t live_items(const Product& p) { return int64_t{*p.live} * p.per_live; }

// The expert of a pair; of pairs that are not live, anything.
__device__ __forceinline__ int32_t expert_id(const Product& p, int64_t pair) {
  return p.experts.ids[pair / p.experts.k * p.experts.ids_stride + pair % p.experts.k];
}
// Where an expert's matrices lie; null when they are not within reach.
__device__ __forceinline__ const uint8_t* expert_memory(const Product& p, int32_t expert) {
  const int32_t slot = p.experts.slot_of[expert];
  if (slot < 0) return nullptr;
  if (slot == kLinked) return reinterpret_cast<const uint8_t*>(p.experts.linked_at[expert]);
  return p.experts.memory + p.experts.offsets[slot];
}

// A row of a model's matrices: where it starts, and its bias.
struct ModelRow {
  const uint8_t* at;
  const float* bias;  // of the row, or null
};
__device__ __forceinline__ ModelRow model_row(const Product& p, int64_t row) {
  const uint8_t* memory = p.memory;
  const float* bias = p.bias;
  int64_t first = 0;
#pragma unroll
  for (const Below& below : p.below) {
    if (row < below.first_row) continue;
    memory = below.memory;
    bias = below.bias;
    first = below.first_row;
  }
  const int64_t own = row - first;
  return {memory + own * static_cast<int64_t>(p.parts[0].row_bytes), bias == nullptr ? nullptr : bias + own};
}

// A product after its scale and biases.
__device__ __forceinline__ float scaled_and_biased(const Product& p, const Part& part, const uint8_t* memory,
                                                   int64_t row, float sum) {
  if (part.scale_offset >= 0) sum *= float_of_bits(load4(memory + part.scale_offset));
  if (part.bias_offset >= 0) sum += float_of_bits(load4(memory + part.bias_offset + 4 * row));
  if (p.experts.slot_of != nullptr) return sum;
  const float* bias = model_row(p, row).bias;
  return bias == nullptr ? sum : sum + *bias;
}

__device__ __forceinline__ float activated(const Product& p, float gate, float up) {
  return p.activation == Activation::kSiluMul ? silu(gate) * up : swiglu_clamped(gate, up, p.alpha, p.limit);
}

// Puts the product of the last part where it belongs; `first` is that of the first one of two.
__device__ __forceinline__ void finish_product(const Product& p, int64_t item, int64_t row, float first, float last) {
  float* y = p.y + item * p.y_stride + row;
  switch (p.finish) {
    case Finish::kStore: *y = last; break;
    case Finish::kAdd: *y += last; break;
    case Finish::kActivate: *y = activated(p, first, last); break;
    case Finish::kActivateOut: *y = activated(p, *y, last); break;
  }
}

}  // namespace strata::kernels::cuda
