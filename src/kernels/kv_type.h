// Element types of the KV cache. A key or value of a head lies in it as a row of such elements.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::kernels {

// kQ8_0: blocks of 32 elements, a float16 scale and 32 signed bytes, as GGUF's type of that name.
enum class KvType : uint8_t { kF32, kF16, kBf16, kQ8_0 };

inline constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kQ8_0};

// As --kv-type spells it.
constexpr const char* kv_type_name(KvType type) {
  switch (type) {
    case KvType::kF32: return "f32";
    case KvType::kF16: return "f16";
    case KvType::kBf16: return "bf16";
    case KvType::kQ8_0: return "q8_0";
  }
  return "";
}

// Elements that are stored together: the width of a head's keys and values has to be a multiple.
constexpr int kv_block(KvType type) { return type == KvType::kQ8_0 ? 32 : 1; }

// Bytes of n elements, a multiple of kv_block(type).
constexpr size_t kv_bytes(KvType type, int64_t n) {
  const auto count = static_cast<size_t>(n);
  switch (type) {
    case KvType::kF32: return count * 4;
    case KvType::kF16: return count * 2;
    case KvType::kBf16: return count * 2;
    case KvType::kQ8_0: return count / 32 * 34;
  }
  return 0;
}

}  // namespace strata::kernels
