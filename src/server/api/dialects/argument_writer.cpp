#include "server/api/dialects/argument_writer.h"

#include <algorithm>

#include "server/api/dialects/json_text.h"

namespace strata::server {
namespace {

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// What models that think in Python write.
std::string as_json_word(const std::string& text) {
  if (text == "True") return "true";
  if (text == "False") return "false";
  return text == "None" ? "null" : text;
}

}  // namespace

ArgumentWriter::Kind ArgumentWriter::kind_of(const Json* schema) {
  if (schema == nullptr || !schema->is_object() || !schema->contains("type")) return Kind::kUnknown;
  const Json& type = schema->at("type");
  if (type.is_string()) return type == "string" ? Kind::kString : Kind::kJson;
  if (!type.is_array()) return Kind::kUnknown;
  const bool string = std::find(type.begin(), type.end(), "string") != type.end();
  const bool null = std::find(type.begin(), type.end(), "null") != type.end();
  if (!string) return Kind::kJson;
  return null ? Kind::kStringOrNull : Kind::kString;
}

void ArgumentWriter::begin(std::string_view tool, EventWriter& out) {
  tool_ = tool;
  out.arguments("{");
}

void ArgumentWriter::begin_value(std::string_view argument, EventWriter& out) {
  kind_ = kind_of(tools_.argument(tool_, argument));
  at_front_ = true;
  line_end_held_ = false;
  value_.clear();
  out.arguments(std::string(first_argument_ ? "" : ", ") + "\"" + escaped(argument) + "\": ");
  if (kind_ == Kind::kString) out.arguments("\"");
  first_argument_ = false;
}

void ArgumentWriter::string_byte(char byte, EventWriter& out) {
  std::string text;
  if (line_end_held_) append_escaped('\n', text);
  line_end_held_ = strips_lines_ && byte == '\n';
  if (!line_end_held_) append_escaped(byte, text);
  out.arguments(text);
}

void ArgumentWriter::value(char byte, EventWriter& out) {
  const bool first = at_front_;
  at_front_ = false;
  if (first && strips_lines_ && byte == '\n') return;
  if (kind_ == Kind::kString) {
    string_byte(byte, out);
  } else {
    value_ += byte;
  }
}

std::string ArgumentWriter::whole_value() const {
  const std::string word = as_json_word(trimmed(value_));
  const bool may_be_json = kind_ != Kind::kStringOrNull || word == "null";
  if (may_be_json && Json::accept(word)) return word;
  std::string_view text = value_;
  if (strips_lines_ && text.ends_with('\n')) text.remove_suffix(1);
  return "\"" + escaped(text) + "\"";
}

void ArgumentWriter::end_value(EventWriter& out) { out.arguments(kind_ == Kind::kString ? "\"" : whole_value()); }

void ArgumentWriter::end(EventWriter& out) { out.arguments("}"); }

std::optional<size_t> ArgumentWriter::value_until(char byte, text::PatternSet& ends, std::string& held,
                                                  EventWriter& out) {
  held += byte;
  const std::optional<size_t> found = ends.advance(byte);
  const size_t n_mark = found ? ends.pattern(*found).size() : ends.n_open();
  const size_t n_certain = held.size() - n_mark;
  for (size_t i = 0; i < n_certain; ++i) value(held[i], out);
  held.erase(0, n_certain);
  if (!found) return {};
  held.clear();
  end_value(out);
  return found;
}

}  // namespace strata::server
