// Classes of code points that pre-tokenizers tell apart: general categories, and the White_Space property.
#pragma once

#include <cstdint>
#include <span>

namespace strata::text {

enum class CharClass : uint8_t {
  kOther,        // controls, formats, private use, unassigned
  kUpper,        // Lu, Lt
  kLower,        // Ll
  kCaseless,     // Lm, Lo
  kMark,         // M
  kNumber,       // N
  kPunctuation,  // P
  kSymbol,       // S
  kWhiteSpace,   // the property White_Space
};

// A set of classes: one bit each.
using CharSet = uint32_t;
constexpr CharSet set_of(CharClass one) { return CharSet{1} << static_cast<int>(one); }

inline constexpr CharSet kUppers = set_of(CharClass::kUpper);
inline constexpr CharSet kLowers = set_of(CharClass::kLower);
inline constexpr CharSet kLetters = kUppers | kLowers | set_of(CharClass::kCaseless);  // \p{L}
inline constexpr CharSet kMarks = set_of(CharClass::kMark);                            // \p{M}
inline constexpr CharSet kNumbers = set_of(CharClass::kNumber);                        // \p{N}
inline constexpr CharSet kPunctuationOrSymbols = set_of(CharClass::kPunctuation) | set_of(CharClass::kSymbol);
inline constexpr CharSet kWhiteSpaces = set_of(CharClass::kWhiteSpace);  // \s
inline constexpr CharSet kOthers = set_of(CharClass::kOther);

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
