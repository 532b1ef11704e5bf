// Products of weight matrices with activation rows on a CUDA device: matrices of a model, or those of the experts that
// each row is routed to, which lie in slots. One description serves the kernels for a few rows (matvec.h) and those
// for many (tiles.h).
//
// All pointers are device pointers. Blocks of weights are read in place and need no alignment; neither do the biases
// and scales within experts' blobs. Around them memory is readable to multiples of sixteen bytes. Float rows are
// aligned to their elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/q8.h"
#include "quant/type.h"

namespace strata::kernels::cuda {

// A matrix within a memory, [rows][cols]; offsets in bytes.
struct Part {
  quant::Type type = quant::Type::F32;
  int64_t offset = 0;  // of row 0
  size_t row_bytes = 0;
  int64_t bias_offset = -1;   // float32 [rows], added to the products; -1: none
  int64_t scale_offset = -1;  // one float32 that multiplies them before; -1: none
};

// Where the experts of the pairs of a step lie. Pair p belongs to row p / k and goes to expert ids[p / k][p % k].
struct ExpertTable {
  const uint8_t* memory = nullptr;     // of the slots
  const int64_t* offsets = nullptr;    // [n_slots] where each starts: bytes, a multiple of 16
  int64_t n_slots = 0;
  const int32_t* slot_of = nullptr;    // [experts] slot, kLinked, or -1; null: no experts
  const int64_t* linked_at = nullptr;  // [experts] address of each that lies elsewhere; null: none does
  // What linked_at says is there when the kernel in front ends, which lets this one start when all in front of itself
  // is done; the addresses are multiples of 16. Kernels that don't know of it wait for all.
  bool fetched = false;
  const int32_t* ids = nullptr;
  int64_t ids_stride = 0;
  int k = 1;
};

// What slot_of says of an expert that is at an address of its own.
inline constexpr int32_t kLinked = INT32_MAX;

enum class Activation : uint8_t { kSiluMul, kSwigluClamped };

// What becomes of the products.
enum class Finish : uint8_t {
  kStore,        // y = product
  kAdd,          // y += product
  kActivate,     // y = activation(product of the first part, product of the second)
  kActivateOut,  // y = activation(y, product)
};

// A further matrix of a model, of the type and the columns of the first one, whose rows continue those above it.
struct Below {
  const uint8_t* memory = nullptr;
  const float* bias = nullptr;  // of its own rows, or null
  int64_t first_row = INT64_MAX;  // the product's row that its row 0 is
};
inline constexpr int kMostBelow = 3;

struct Product {
  Part parts[2];
  int n_parts = 1;  // 2 with kActivate, of the same type
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* memory = nullptr;  // of the parts, when there are no experts
  ExpertTable experts;
  int64_t n_experts = 0;
  // Scratch in which launch_sort_pairs() (tiles.h) leaves the pairs sorted by expert, n_pairs + 3 * n_experts + 1 ints.
  int32_t* order = nullptr;

  // Items are rows, or pairs when there are experts: the first live[0] * per_live ones of at most max_items.
  const int32_t* live = nullptr;
  int per_live = 1;
  int64_t max_items = 0;
  const float* x = nullptr;  // item i multiplies row i / x_share
  int64_t x_stride = 0;
  int x_share = 1;
  float* y = nullptr;  // row i is item i's
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [rows] or null

  Finish finish = Finish::kStore;
  Activation activation = Activation::kSiluMul;
  float alpha = 0;
  float limit = 0;

  // kNone: float32 products. Else what the activations are rounded to, once or, `twice`, their rest once more.
  ActFormat format = ActFormat::kNone;
  bool twice = false;

  // Only for few items (matvec.h): matrices under the first one, and an RMS norm of the rows in front of the product
  // where matvec_norms() says so.
  Below below[kMostBelow];
  const float* gain = nullptr;  // [cols]; null: rows as they are
  float eps = 0;
};

}  // namespace strata::kernels::cuda
