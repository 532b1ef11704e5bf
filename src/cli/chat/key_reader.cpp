#include "cli/chat/key_reader.h"

#include <algorithm>
#include <iterator>

#include "base/bytes.h"
#include "base/format.h"
#include "text/utf8.h"

namespace strata::cli {
namespace {

constexpr int32_t kEscape = 0x1B, kInterrupt = 0x03, kBell = 0x07;
constexpr int32_t kReplacementCharacter = 0xFFFD;
constexpr std::string_view kPasteEnd = "\x1b[201~";

// What line_editor.cpp binds, and the library by itself: arrows, Home, End and Delete, in the forms of xterm, its
// application mode, the Linux console and rxvt.
constexpr std::string_view kKnown[] = {
    "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\x1bOA", "\x1bOB", "\x1bOC", "\x1bOD",
    "\x1bOH", "\x1bOF", "\x1b[1~", "\x1b[3~", "\x1b[4~", "\x1b[7~", "\x1b[8~", KeyReader::kPasteBegin,
};

bool is_known(std::string_view sequence) {
  return std::find(std::begin(kKnown), std::end(kKnown), sequence) != std::end(kKnown);
}

// With line ends as \n and without what a terminal would obey.
std::string cleaned(std::string_view pasted) {
  std::string out;
  for (size_t i = 0; i < pasted.size(); i++) {
    const char c = pasted[i];
    if (c == '\r') {
      out += '\n';
      if (i + 1 < pasted.size() && pasted[i + 1] == '\n') i++;
    } else if (c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) {
      out += c;
    }
  }
  return out;
}

}  // namespace

int32_t KeyReader::next() {
  while (ready_.empty()) {
    const int32_t c = character();
    if (c != kEscape) return c;
    read_sequence();
  }
  const int32_t c = ready_.front();
  ready_.pop_front();
  return c;
}

int32_t KeyReader::character() {
  text::Utf8Step step{.kind = text::Utf8Kind::kIncomplete, .length = 0, .code_point = 0};
  for (;;) {
    if (!bytes_.empty()) step = text::utf8_step(bytes_);
    if (step.kind != text::Utf8Kind::kIncomplete) break;
    const int byte = next_byte_();
    if (byte < 0 && bytes_.empty()) return kEnd;
    if (byte < 0) break;
    bytes_ += static_cast<char>(byte);
  }
  const bool whole = step.kind == text::Utf8Kind::kCharacter;
  bytes_.erase(0, whole ? step.length : 1);
  invalid_ |= !whole;
  return whole ? static_cast<int32_t>(step.code_point) : kReplacementCharacter;
}

void KeyReader::give(std::string_view sequence) {
  for (const char c : sequence) ready_.push_back(static_cast<unsigned char>(c));
}

void KeyReader::read_sequence() {
  for (;;) {
    int32_t c = character();
    while (c == kEscape) c = character();  // Alt and a key that sends a sequence: the sequence counts
    if (c == '[' || c == ']') {
      const bool broken_by_escape = c == '[' ? read_csi() : skip_string();
      if (broken_by_escape) continue;
    } else if (c == 'O') {
      read_ss3();
    } else if (c != '\\') {
      if (c >= 0x20) ready_.push_back(kEscape);
      ready_.push_back(c);
    }
    return;
  }
}

// ESC O and one character.
void KeyReader::read_ss3() {
  const int32_t c = character();
  if (c < 0x20 || c > 0x7E) {
    ready_.push_back(c);
  } else if (const std::string sequence = {'\x1b', 'O', static_cast<char>(c)}; is_known(sequence)) {
    give(sequence);
  }
}

// ESC [ , parameters and intermediates, one final character. Anything else breaks it off and counts for itself.
bool KeyReader::read_csi() {
  constexpr size_t kMaxKept = 16;  // longer than any that is known
  std::string sequence = "\x1b[";
  for (;;) {
    const int32_t c = character();
    if (c < 0x20 || c > 0x7E) {
      if (c != kEscape) ready_.push_back(c);
      return c == kEscape;
    }
    if (sequence.size() < kMaxKept) sequence += static_cast<char>(c);
    if (c < 0x40) continue;
    if (sequence == "\x1b[[") {
      static_cast<void>(character());  // function keys of the Linux console
    } else if (is_known(sequence)) {
      give(sequence);
    }
    return false;
  }
}

// ESC ] and text, to BEL or ESC \ : what a terminal answers. Any other control character breaks it off.
bool KeyReader::skip_string() {
  for (;;) {
    const int32_t c = character();
    if (c == kBell) return false;
    if (c == kEscape) return true;  // the backslash is swallowed as a sequence of its own
    if (c < 0x20) {
      ready_.push_back(c);
      return false;
    }
  }
}

Result<std::string> KeyReader::read_paste() {
  std::string pasted;
  bool too_long = false;
  for (;;) {
    const int32_t c = character();
    if (c == kEnd || c == kInterrupt) {
      ready_.push_back(c);
      return std::string();
    }
    text::append_utf8(static_cast<uint32_t>(c), pasted);
    if (pasted.ends_with(kPasteEnd)) break;
    if (pasted.size() <= kMaxPasteBytes + kPasteEnd.size()) continue;
    too_long = true;
    pasted.erase(0, pasted.size() - kPasteEnd.size());
  }
  pasted.resize(pasted.size() - kPasteEnd.size());
  if (too_long || pasted.size() > kMaxPasteBytes) {
    return Error{ErrorCode::kBadInput,
                 format("the pasted text is longer than {}, which a line may have; the line was not sent",
                        format_bytes(kMaxPasteBytes))};
  }
  return cleaned(pasted);
}

}  // namespace strata::cli
