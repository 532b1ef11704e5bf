// Tensor types of GGUF files: ids, block sizes and exact decoding to float32 (specs: docs/FORMATS.md lists sources).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::quant {

// Values are the 32-bit type numbers of GGUF tensor infos.
enum class Type : uint32_t {
  F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q8_1 = 9,
  Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, Q8_K = 15,
  IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19, IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23,
  I8 = 24, I16 = 25, I32 = 26, I64 = 27, F64 = 28, IQ1_M = 29, BF16 = 30,
  TQ1_0 = 34, TQ2_0 = 35, MXFP4 = 39, NVFP4 = 40, Q1_0 = 41, Q2_0 = 42,
};

// Decodes n elements (a multiple of block_elems) from packed blocks with any alignment. Every value is the exact
// product of its block's scale and code, rounded at most once, so all implementations agree bit for bit.
using DecodeFn = void (*)(const uint8_t* blocks, float* out, size_t n);

struct TypeInfo {
  Type type;
  const char* name;      // as llama.cpp spells it, "Q4_K"
  uint32_t block_elems;  // elements per block
  uint32_t block_bytes;  // bytes per block
  bool in_files;         // may be the type of a tensor in a file (Q8_1 and Q8_K are activation formats)
  DecodeFn decode;       // baseline build; kernels::Kernels::decode has the faster ones. null for I8..I64, F64
};

// All known types, in order of id.
std::span<const TypeInfo> all_types();
// null for an id that is unknown, removed or private; never reads past a table.
const TypeInfo* find_type(uint32_t id);
// null for an unknown name; case-sensitive.
const TypeInfo* find_type(const char* name);
const TypeInfo& info(Type type);

// Bytes of a row of n elements (a multiple of block_elems).
inline size_t row_bytes(Type type, size_t n) { return n / info(type).block_elems * info(type).block_bytes; }

// Small number formats (spec: exact, subnormals kept; to_* round to nearest even, f16 clamps to +-65504).
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

// Whether every scale of the blocks is finite (and MXFP4's exponent is not 255).
bool scales_finite(Type type, const uint8_t* blocks, size_t n);

}  // namespace strata::quant
