#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace strata::text {

namespace {

constexpr uint32_t kFirstMoved = 0x100;  // character of the first byte that does not stand for itself
constexpr int kMoved = 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> character;     // of each byte
  std::array<uint8_t, kMoved> moved;          // byte of U+0100 + i
};

Alphabet make_alphabet() {
  Alphabet alphabet;
  uint32_t n_moved = 0;
  for (int byte = 0; byte < 256; ++byte) {
    uint32_t code_point = static_cast<uint32_t>(byte);
    if (!stands_for_itself(byte)) {
      alphabet.moved[n_moved] = static_cast<uint8_t>(byte);
      code_point = kFirstMoved + n_moved++;
    }
    append_utf8(code_point, alphabet.character[static_cast<size_t>(byte)]);
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet instance = make_alphabet();
  return instance;
}

}  // namespace

std::string_view byte_character(uint8_t byte) { return alphabet().character[byte]; }

std::string bytes_of_text(std::string_view token_text) {
  std::string bytes;
  bytes.reserve(token_text.size());
  while (!token_text.empty()) {
    const Utf8Step step = utf8_step(token_text);
    const bool character = step.kind == Utf8Kind::kCharacter;
    if (character && step.code_point < 256 && stands_for_itself(static_cast<int>(step.code_point))) {
      bytes.push_back(static_cast<char>(step.code_point));
    } else if (character && step.code_point >= kFirstMoved && step.code_point < kFirstMoved + kMoved) {
      bytes.push_back(static_cast<char>(alphabet().moved[step.code_point - kFirstMoved]));
    } else {
      bytes.append(token_text.substr(0, step.length));
    }
    token_text.remove_prefix(step.length);
  }
  return bytes;
}

}  // namespace strata::text
