// The alphabet of byte-level BPE: every byte has a printable character, and token texts and merges are written with
// those. Printable Latin-1 bytes stand for themselves; the other 68, in ascending order, are U+0100 and following.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::text {

// The character of a byte, as UTF-8.
std::string_view byte_character(uint8_t byte);

// The bytes that a token text stands for. What is not of the alphabet is passed on as it is.
std::string bytes_of_text(std::string_view token_text);

}  // namespace strata::text
