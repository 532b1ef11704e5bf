#include "quant/type.h"

#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"

#define STRATA_DECODE_NS strata::quant::baseline
#include "quant/decode/all.inl.h"

namespace strata::quant {

namespace {

using baseline::Format;
using baseline::kFormats;
using baseline::kIdEnd;
using baseline::ScaleField;

constexpr size_t count_types() {
  size_t count = 0;
  for (const Format& format : kFormats.by_id) count += format.info.name != nullptr;
  return count;
}

struct TypeList {
  TypeInfo types[count_types()];
};

constexpr TypeList make_type_list() {
  TypeList list{};
  size_t count = 0;
  for (const Format& format : kFormats.by_id) {
    if (format.info.name != nullptr) list.types[count++] = format.info;
  }
  return list;
}

constexpr TypeList kTypes = make_type_list();

// Whether no word of type T at `first`, `first + stride`, ... has all exponent bits set.
template <class T>
bool words_finite(const uint8_t* first, size_t stride, size_t count, uint64_t exponent) {
  const T mask = static_cast<T>(exponent);
  size_t infinite = 0;  // counted rather than returned at once, so that plain arrays are checked in vectors
  for (size_t i = 0; i < count; i++) infinite += (load_le<T>(first + i * stride) & mask) == mask;
  return infinite == 0;
}

bool field_finite(const ScaleField& field, const uint8_t* blocks, size_t stride, size_t count) {
  const uint8_t* first = blocks + field.offset;
  switch (field.bytes) {
    case 1: return words_finite<uint8_t>(first, stride, count, field.exponent);
    case 2: return words_finite<uint16_t>(first, stride, count, field.exponent);
    case 4: return words_finite<uint32_t>(first, stride, count, field.exponent);
    case 8: return words_finite<uint64_t>(first, stride, count, field.exponent);
    default: return true;  // no field
  }
}

}  // namespace

std::span<const TypeInfo> all_types() { return kTypes.types; }

const TypeInfo* find_type(uint32_t id) {
  if (id >= kIdEnd || kFormats.by_id[id].info.name == nullptr) return nullptr;
  return &kFormats.by_id[id].info;
}

const TypeInfo* find_type(const char* name) {
  for (const TypeInfo& type : kTypes.types) {
    if (std::strcmp(type.name, name) == 0) return find_type(static_cast<uint32_t>(type.type));
  }
  return nullptr;
}

const TypeInfo& info(Type type) {
  const TypeInfo* found = find_type(static_cast<uint32_t>(type));
  ASSERT(found != nullptr);
  return *found;
}

bool scales_finite(Type type, const uint8_t* blocks, size_t n) {
  const TypeInfo& layout = info(type);
  const size_t count = n / layout.block_elems;
  for (const ScaleField& field : kFormats.by_id[static_cast<uint32_t>(type)].scales) {
    if (!field_finite(field, blocks, layout.block_bytes, count)) return false;
  }
  return true;
}

float f16_to_f32(uint16_t bits) { return baseline::f16_value(bits); }

uint16_t f32_to_f16(float value) {
  const uint32_t bits = load_le<uint32_t>(&value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t half;
  if (magnitude > 0x7F800000) {  // NaN: quiet, upper payload bits kept
    half = 0x7E00 | (magnitude >> 13 & 0x3FF);
  } else if (magnitude >= 0x477FE000) {  // 65504 and above
    half = 0x7BFF;
  } else if (magnitude < 0x38800000) {
    // Below 2^-14 a half counts units of 2^-24, the last bit of a float between 0.5 and 1: the addition rounds to them.
    const float shifted = load_le<float>(&magnitude) + 0.5f;
    half = load_le<uint32_t>(&shifted) - 0x3F000000;
  } else {
    // 13 mantissa bits less, ties to even; a carry moves into the exponent, whose bias is 112 smaller.
    half = (magnitude + 0xFFF + (magnitude >> 13 & 1) - 0x38000000) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

float bf16_to_f32(uint16_t bits) { return baseline::float_of_bits(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = load_le<uint32_t>(&value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace strata::quant
