#include "text/utf8.h"

#include "base/assert.h"
#include "base/bytes.h"

namespace strata::text {

namespace {

struct LeadByte {
  uint8_t length;                    // of the character; 0 for a byte that begins none
  uint8_t second_min, second_max;    // allowed second bytes; later ones are 80..BF
};

LeadByte lead_byte(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes of ASCII at the front, found eight at a time.
size_t ascii_prefix(std::string_view text) {
  size_t n = 0;
  while (n + 8 <= text.size() && (load_le<uint64_t>(text.data() + n) & 0x8080808080808080u) == 0) n += 8;
  while (n < text.size() && static_cast<unsigned char>(text[n]) < 0x80) ++n;
  return n;
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  ASSERT(!bytes.empty());
  const auto at = [bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const LeadByte lead = lead_byte(at(0));
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1, 0};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, static_cast<uint8_t>(i), 0};
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (at(i) < min || at(i) > max) return {Utf8Kind::kInvalid, 1, 0};
  }
  return {Utf8Kind::kCharacter, lead.length, utf8_char(bytes.data()).code_point};
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto add = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
    add(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    add(0xE0 | code_point >> 12);
    add(0x80 | (code_point >> 6 & 0x3F));
    add(0x80 | (code_point & 0x3F));
  } else {
    add(0xF0 | code_point >> 18);
    add(0x80 | (code_point >> 12 & 0x3F));
    add(0x80 | (code_point >> 6 & 0x3F));
    add(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  while (true) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Kind::kCharacter) return false;
    text.remove_prefix(step.length);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8Kind::kCharacter) {
      out.append(text.substr(0, step.length));
    } else {
      for (int i = 0; i < step.length; ++i) out.append(kReplacement);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace strata::text
