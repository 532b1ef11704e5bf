// UTF-8 as the Unicode standard defines it (table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : uint8_t {
  kCharacter,   // a whole character
  kInvalid,     // one byte that begins no character, whatever follows
  kIncomplete,  // the text ends inside what may still become a character
};

struct Utf8Step {
  Utf8Kind kind;
  uint8_t length;       // bytes; 1 for kInvalid, all that is left for kIncomplete
  uint32_t code_point;  // of kCharacter
};

// What stands at the front of `bytes`, which must not be empty.
Utf8Step utf8_step(std::string_view bytes);

// The character at `at` of text that is known to be valid.
struct Utf8Char {
  uint32_t code_point;
  uint32_t length;
};
inline Utf8Char utf8_char(const char* at) {
  const auto byte = [at](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(at[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

void append_utf8(uint32_t code_point, std::string& out);

bool is_valid_utf8(std::string_view text);

// Each invalid byte, and each byte of an incomplete character at the end, becomes one U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace strata::text
