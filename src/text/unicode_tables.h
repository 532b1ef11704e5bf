// Classes of code points that pre-tokenizers tell apart: general categories L and N, and the White_Space property.
#pragma once

#include <cstdint>
#include <span>

namespace strata::text {

enum class CharClass : uint8_t { kOther, kLetter, kNumber, kWhiteSpace };

struct CharRange {
  uint32_t first, last;  // code points, both included
  CharClass char_class;
};

// Ascending and disjoint; what lies between them is kOther, unassigned code points too.
extern const std::span<const CharRange> kCharRanges;
// Version of the Unicode standard the ranges are from, as "14.0.0".
extern const char kUnicodeVersion[];

// Any value; what is no code point is kOther.
CharClass char_class(uint32_t code_point);

}  // namespace strata::text
