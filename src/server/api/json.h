// JSON as it comes from clients, and how to read fields of it so that a wrong one is named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "server/api/api_error.h"

namespace strata::server {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 64;

// 400 for what is not one JSON object, is not UTF-8 (both say where) or is nested deeper than kMaxJsonDepth.
ApiResult<Json> parse_object(std::string_view body);

// Never fails: what is not UTF-8 becomes U+FFFD.
std::string dump(const Json& json);
// The text of a message's content, which is a string or parts.
std::string text_of(const Json& content);
// `text` between quotes, without them.
std::string escaped(std::string_view text);

// The fields of an object. A field that is null counts as absent. Errors name it as `path`.key. The object outlives it.
class Fields {
 public:
  explicit Fields(const Json& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  // Null for absent.
  const Json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string name(std::string_view key) const;
  std::string name(std::string_view key, size_t index) const;

  // Of the type and in the range, or 400.
  ApiResult<std::optional<int64_t>> integer(std::string_view key, int64_t least, int64_t most) const;
  ApiResult<std::optional<double>> number(std::string_view key, double least, double most) const;
  ApiResult<std::optional<bool>> boolean(std::string_view key) const;
  ApiResult<std::optional<std::string>> text(std::string_view key) const;
  ApiResult<std::string> required_text(std::string_view key) const;
  // Null for absent.
  ApiResult<const Json*> array(std::string_view key) const;
  ApiResult<const Json*> object(std::string_view key) const;

  ApiError wrong_type(std::string_view key, std::string_view wanted) const;
  const Json& json() const { return object_; }

 private:
  const Json& object_;
  std::string path_;
};

}  // namespace strata::server
