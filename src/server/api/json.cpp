#include "server/api/json.h"

#include <cmath>

#include "base/format.h"
#include "text/json_reader.h"

namespace strata::server {
namespace {

// Of a whole number; nullopt for one that has no place in it.
std::optional<int64_t> int64_of(const Json& number) {
  if (number.is_number_unsigned()) {
    const auto value = number.get<uint64_t>();
    return value <= uint64_t{INT64_MAX} ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
  }
  if (number.is_number_integer()) return number.get<int64_t>();
  const double value = number.get<double>();
  return value >= -0x1p63 && value < 0x1p63 ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

ApiError out_of_range(const std::string& name, const std::string& given, const std::string& allowed) {
  return invalid_request(format("{} is {}, but must be {}", name, given, allowed), name);
}

}  // namespace

ApiResult<Json> parse_object(std::string_view body) {
  auto json = text::read_json(body, kMaxJsonDepth);
  if (!json.ok()) return invalid_request(format("the body {}", json.error().message), "", "invalid_json");
  if (!json->is_object()) {
    return invalid_request(format("the body must be a JSON object, not {}", json->type_name()), "", "invalid_json");
  }
  return std::move(json).value();
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string escaped(std::string_view text) {
  const std::string quoted = dump(Json(text));
  return quoted.substr(1, quoted.size() - 2);
}

const Json* Fields::find(std::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::string Fields::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : format("{}.{}", path_, key);
}

std::string Fields::name(std::string_view key, size_t index) const { return format("{}[{}]", name(key), index); }

ApiError Fields::wrong_type(std::string_view key, std::string_view wanted) const {
  const Json* value = find(key);
  const std::string given = value == nullptr ? "missing" : value->type_name();
  return invalid_request(format("{} must be {}, but is {}", name(key), wanted, given), name(key), "invalid_type");
}

ApiResult<std::optional<int64_t>> Fields::integer(std::string_view key, int64_t least, int64_t most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  // 5.0 is an integer too: some clients have one type for all numbers.
  const bool whole = value->is_number() && std::floor(value->get<double>()) == value->get<double>();
  if (!whole) return wrong_type(key, "an integer");
  const std::optional<int64_t> integer = int64_of(*value);
  if (!integer || *integer < least || *integer > most) {
    return out_of_range(name(key), value->dump(), format("from {} to {}", least, most));
  }
  return integer;
}

ApiResult<std::optional<double>> Fields::number(std::string_view key, double least, double most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_type(key, "a number");
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) {
    return out_of_range(name(key), value->dump(), format("from {} to {}", least, most));
  }
  return std::optional<double>(number);
}

ApiResult<std::optional<bool>> Fields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(key, "true or false");
  return std::optional<bool>(value->get<bool>());
}

ApiResult<std::optional<std::string>> Fields::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(key, "a string");
  return std::optional<std::string>(value->get_ref<const std::string&>());
}

ApiResult<std::string> Fields::required_text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_string()) return wrong_type(key, "a string");
  return value->get_ref<const std::string&>();
}

ApiResult<const Json*> Fields::array(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) return wrong_type(key, "an array");
  return value;
}

ApiResult<const Json*> Fields::object(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) return wrong_type(key, "an object");
  return value;
}

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array()) {
    for (const Json& part : content) text += part.value("text", std::string());
  }
  return text;
}

}  // namespace strata::server
