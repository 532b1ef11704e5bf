#include "text/jinja/from_json.h"

#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

class Converter {
 public:
  Converter(Heap& heap, const Variable& variable, const RenderOptions& options)
      : heap_(heap), variable_(variable), options_(options) {}

  Value convert(const nlohmann::ordered_json& json, std::string_view key, int depth) {
    if (depth > kMaxNesting) fail("'{}' is nested more than {} deep", variable_.name, kMaxNesting);
    switch (json.type()) {
      case nlohmann::ordered_json::value_t::boolean: return Value::boolean(json.get<bool>());
      case nlohmann::ordered_json::value_t::number_integer: return Value::integer(json.get<int64_t>());
      case nlohmann::ordered_json::value_t::number_unsigned: return unsigned_number(json.get<uint64_t>());
      case nlohmann::ordered_json::value_t::number_float: return Value::number(json.get<double>());
      case nlohmann::ordered_json::value_t::string:
        return string(json.get_ref<const std::string&>(), key);
      case nlohmann::ordered_json::value_t::array: return list(json, key, depth);
      case nlohmann::ordered_json::value_t::object: return dict(json, depth);
      default: return Value::null();
    }
  }

 private:
  static Value unsigned_number(uint64_t number) {
    if (number > static_cast<uint64_t>(INT64_MAX)) return Value::number(static_cast<double>(number));
    return Value::integer(static_cast<int64_t>(number));
  }

  Value string(const std::string& text, std::string_view key) {
    heap_.take_memory(text.size());
    const bool trusted = options_.is_trusted != nullptr && options_.is_trusted(key, text);
    return heap_.text(MarkedText(replace_invalid_utf8(text), variable_.is_content && !trusted));
  }

  Value list(const nlohmann::ordered_json& json, std::string_view key, int depth) {
    Value out = heap_.list({});
    for (const auto& item : json) heap_.append(out.items(), convert(item, key, depth + 1));
    return out;
  }

  Value dict(const nlohmann::ordered_json& json, int depth) {
    Dict* out = heap_.dict();
    for (const auto& [key, value] : json.items()) {
      const Value name = heap_.text(MarkedText(replace_invalid_utf8(key), variable_.is_content));
      heap_.set(*out, name, convert(value, key, depth + 1));
    }
    return Value::dict(out);
  }

  Heap& heap_;
  const Variable& variable_;
  const RenderOptions& options_;
};

}  // namespace

Value from_json(Heap& heap, const Variable& variable, const RenderOptions& options) {
  return Converter(heap, variable, options).convert(*variable.value, "", 0);
}

}  // namespace strata::text::jinja
