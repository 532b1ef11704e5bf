// Facts of the container that reader and writer share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gguf/gguf.h"

namespace strata::gguf {

inline constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr uint64_t kHeaderBytes = 24;
inline constexpr uint64_t kMinEntryBytes = 14;   // key of one byte, value of one byte
inline constexpr uint64_t kMinTensorBytes = 25;  // name of one byte, no dimensions
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kValueTypes = 13;

inline constexpr size_t kMaxPathPrinted = 400;  // bytes of a path in a message

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kArchitectureKey = "general.architecture";
inline constexpr std::string_view kQuantizationVersionKey = "general.quantization_version";
inline constexpr std::string_view kTypeKey = "general.type";
inline constexpr std::string_view kSplitNoKey = "split.no";
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";

// Bytes of a value of fixed size; 0 for strings and arrays.
constexpr uint64_t fixed_size(ValueType type) {
  constexpr uint8_t kSizes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<uint32_t>(type)];
}

constexpr bool is_alignment(uint64_t value) {
  return value >= 1 && value <= kMaxAlignment && (value & (value - 1)) == 0;
}

// Keys and tensor names are words for people and C strings for other programs: NUL and control characters are refused,
// so that names that differ stay different everywhere they are compared or printed.
constexpr bool has_control_character(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f) return true;
  }
  return false;
}

}  // namespace strata::gguf
