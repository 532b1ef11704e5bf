#include "server/api/dialects/json_text.h"

#include <cctype>
#include <string_view>

#include "base/format.h"

namespace strata::server {
namespace {

constexpr size_t kMaxOpen = 256;

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

// What numbers and words are made of.
bool is_of_word(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '-' || byte == '+' || byte == '.';
}

}  // namespace

void append_escaped(char byte, std::string& out) {
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  if (static_cast<unsigned char>(byte) < 0x20) {
    out += format("\\u{:04x}", static_cast<int>(byte));
  } else {
    out += byte;
  }
}

JsonText::Next JsonText::push_in_string(char byte, std::string& out) {
  if (escaped_) {
    escaped_ = false;
    out += byte;
    return Next::kMore;
  }
  if (byte == '"') {
    out += byte;
    in_string_ = false;
    return open_.empty() ? Next::kDone : Next::kMore;
  }
  escaped_ = byte == '\\';
  if (escaped_) {
    out += byte;
  } else {
    append_escaped(byte, out);
  }
  return Next::kMore;
}

JsonText::Next JsonText::push(char byte, std::string& out) {
  if (in_string_) return push_in_string(byte, out);
  const bool is_scalar = begun_ && open_.empty();
  if (is_scalar && !is_of_word(byte)) return Next::kAfter;
  if (byte == '"') {
    in_string_ = true;
  } else if (byte == '{' || byte == '[') {
    if (open_.size() == kMaxOpen) return Next::kBad;
    open_ += byte == '{' ? '}' : ']';
  } else if (byte == '}' || byte == ']') {
    if (open_.empty() || open_.back() != byte) return Next::kBad;
    open_.pop_back();
  } else if (!is_of_word(byte) && (open_.empty() || (!is_space(byte) && byte != ',' && byte != ':'))) {
    return Next::kBad;
  }
  begun_ = true;
  out += byte;
  return open_.empty() && (byte == '}' || byte == ']') ? Next::kDone : Next::kMore;
}

}  // namespace strata::server
