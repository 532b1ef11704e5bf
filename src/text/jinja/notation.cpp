#include "text/jinja/notation.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

void append_escape(std::string& out, const char* kind, uint32_t code, int digits) {
  constexpr char kHex[] = "0123456789abcdef";
  out += kind;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[code >> shift & 15];
}

// Writes into one text; whether a marked string was among the values decides over the marks of the whole.
class Writer {
 public:
  explicit Writer(Heap& heap) : heap_(heap) {}

  MarkedText take() { return MarkedText(std::move(out_), has_content_); }

 protected:
  void put(std::string_view bytes) {
    heap_.take_memory(bytes.size());
    out_ += bytes;
  }
  void enter(int depth) {
    heap_.step();
    if (depth > kMaxNesting) fail("a value to be printed is nested more than {} deep", kMaxNesting);
  }
  void note(const Value& string) {
    heap_.look_at(string.text().size());
    has_content_ |= string.text().has_content();
  }

  Heap& heap_;

 private:
  std::string out_;
  bool has_content_ = false;
};

class PythonWriter final : public Writer {
 public:
  using Writer::Writer;

  void write(const Value& value, int depth) {
    enter(depth);
    switch (value.kind()) {
      case Kind::kUndefined: return put("Undefined");
      case Kind::kNull: return put("None");
      case Kind::kBool: return put(value.as_bool() ? "True" : "False");
      case Kind::kInt: return put(std::to_string(value.as_int()));
      case Kind::kFloat: return put(float_text(value.as_double()));
      case Kind::kString: return write_string(value);
      case Kind::kList: return write_items(value, "[", "]", depth);
      case Kind::kTuple: return write_items(value, "(", value.items().items.size() == 1 ? ",)" : ")", depth);
      case Kind::kDict: return write_dict(value.entries(), depth);
      case Kind::kObject: return put("<" + std::string(value.object().type_name()) + ">");
    }
  }

 private:
  void write_items(const Value& value, const char* open, const char* close, int depth) {
    put(open);
    const auto& items = value.items().items;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(", ");
      write(items[i], depth + 1);
    }
    put(close);
  }

  void write_dict(const Dict& dict, int depth) {
    put("{");
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!first) put(", ");
      first = false;
      write(entry.key, depth + 1);
      put(": ");
      write(entry.value, depth + 1);
    }
    put("}");
  }

  void write_string(const Value& value) {
    note(value);
    const std::string& bytes = value.bytes();
    const bool has_single = bytes.find('\'') != std::string::npos;
    const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
    std::string out(1, quote);
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Char character = utf8_char(bytes.data() + at);
      append_character(out, bytes.substr(at, character.length), character.code_point, quote);
      at += character.length;
    }
    put(out + quote);
  }

  static void append_character(std::string& out, std::string_view bytes, uint32_t code, char quote) {
    if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code == '\\' || code == static_cast<uint32_t>(quote)) {
      (out += '\\') += static_cast<char>(code);
    } else if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) {
      append_escape(out, "\\x", code, 2);
    } else {
      out += bytes;
    }
  }
};

class JsonWriter final : public Writer {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : Writer(heap), style_(style) {}

  void write(const Value& value, int depth) {
    enter(depth);
    switch (value.kind()) {
      case Kind::kNull: return put("null");
      case Kind::kBool: return put(value.as_bool() ? "true" : "false");
      case Kind::kInt: return put(std::to_string(value.as_int()));
      case Kind::kFloat: return put(number_text(value.as_double()));
      case Kind::kString: return write_string(value);
      case Kind::kList:
      case Kind::kTuple: return write_list(value.items(), depth);
      case Kind::kDict: return write_dict(value.entries(), depth);
      case Kind::kUndefined:
      case Kind::kObject: fail("{} can't be written as JSON", value.description());
    }
  }

 private:
  // json.dumps() writes these as JavaScript does.
  static std::string number_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void new_line(int depth) {
    if (!style_.indented) return;
    put("\n");
    for (int i = 0; i < depth; ++i) put(style_.indent);
  }

  void write_list(const List& list, int depth) {
    if (list.items.empty()) return put("[]");
    put("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    new_line(depth);
    put("]");
  }

  void write_dict(const Dict& dict, int depth) {
    if (dict.size() == 0) return put("{}");
    std::vector<const Dict::Entry*> order;
    for (const Dict::Entry& entry : dict.entries()) order.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [this](const Dict::Entry* a, const Dict::Entry* b) {
        return compare(heap_, a->key, b->key) < 0;
      });
    }
    put("{");
    bool first = true;
    for (const Dict::Entry* entry : order) {
      if (!first) put(style_.item_separator);
      first = false;
      new_line(depth + 1);
      write_key(entry->key, depth + 1);
      put(style_.key_separator);
      write(entry->value, depth + 1);
    }
    new_line(depth);
    put("}");
  }

  void write_key(const Value& key, int depth) {
    if (key.is_string()) return write_string(key);
    put("\"");
    write(key, depth);
    put("\"");
  }

  void write_string(const Value& value) {
    note(value);
    std::string out = "\"";
    const std::string& bytes = value.bytes();
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Char character = utf8_char(bytes.data() + at);
      append_character(out, std::string_view(bytes).substr(at, character.length), character.code_point);
      at += character.length;
    }
    put(out + "\"");
  }

  void append_character(std::string& out, std::string_view bytes, uint32_t code) const {
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    const size_t special = code < 0x80 ? kEscaped.find(static_cast<char>(code)) : std::string_view::npos;
    if (special != std::string_view::npos) {
      (out += '\\') += kLetters[special];
    } else if (code < 0x20 || (style_.ensure_ascii && code > 0x7F && code < 0x10000)) {
      append_escape(out, "\\u", code, 4);
    } else if (style_.ensure_ascii && code >= 0x10000) {
      append_escape(out, "\\u", 0xD800 + ((code - 0x10000) >> 10), 4);
      append_escape(out, "\\u", 0xDC00 + ((code - 0x10000) & 0x3FF), 4);
    } else {
      out += bytes;
    }
  }

  const JsonStyle& style_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const int exponent = std::stoi(text.substr(text.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

MarkedText to_text(Heap& heap, const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_string()) {
    heap.take_memory(value.text().cost());
    return value.text();
  }
  PythonWriter writer(heap);
  writer.write(value, 0);
  return writer.take();
}

Value to_string(Heap& heap, const Value& value) {
  return value.is_string() ? value : heap.text(to_text(heap, value));
}

MarkedText to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace strata::text::jinja
