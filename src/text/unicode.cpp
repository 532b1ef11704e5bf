#include <algorithm>
#include <array>

#include "text/unicode_tables.h"

namespace strata::text {

namespace {

CharClass search(uint32_t code_point) {
  const auto after = std::upper_bound(kCharRanges.begin(), kCharRanges.end(), code_point,
                                      [](uint32_t value, const CharRange& range) { return value < range.first; });
  if (after == kCharRanges.begin()) return CharClass::kOther;
  const CharRange& range = *(after - 1);
  return code_point <= range.last ? range.char_class : CharClass::kOther;
}

// Most text needs no search: the classes of the first code points (Latin, Greek, Cyrillic), one byte each.
constexpr uint32_t kDirect = 0x600;

std::array<CharClass, kDirect> make_direct() {
  std::array<CharClass, kDirect> classes;
  for (uint32_t i = 0; i < kDirect; ++i) classes[i] = search(i);
  return classes;
}

}  // namespace

CharClass char_class(uint32_t code_point) {
  static const std::array<CharClass, kDirect> direct = make_direct();
  return code_point < kDirect ? direct[code_point] : search(code_point);
}

}  // namespace strata::text
