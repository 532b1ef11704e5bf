// The one translation unit with fmt's templates: Debian ships no static libfmt, and the program links none.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include "base/format.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace strata {
namespace {

// Length in bytes of the well-formed UTF-8 character at the start of `text` (Unicode, table 3-7: no overlong forms, no
// surrogates, at most U+10FFFF); 0 where there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  const uint8_t second_min = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t second_max = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < second_min || byte(1) > second_max) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

// C0, DEL and C1 (U+0080 to U+009F): what a terminal may take for a command.
bool is_control(std::string_view character) {
  const auto lead = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return lead < 0x20 || lead == 0x7f;
  return lead == 0xc2 && static_cast<uint8_t>(character[1]) < 0xa0;
}

}  // namespace

std::string vformat(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

std::string format_bytes(unsigned long long bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // From 1023.95 on, one decimal would print 1024.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number + " " + kUnits[unit];
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    const std::string_view shown = length == 0 || is_control(character) ? std::string_view("?") : character;
    if (out.size() + shown.size() > max_bytes) return out + "...";
    out += shown;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace strata
