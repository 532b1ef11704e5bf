#include "server/api/text_limit.h"

#include <algorithm>

#include "base/format.h"

namespace strata::server {
namespace {

constexpr size_t kBytesPerToken = 16;
constexpr size_t kCostOfValue = 8;

}  // namespace

int64_t max_tokens_of_text(const ServedModel& model) { return std::max(model.context, kLeastTokenLimit); }

size_t max_text_bytes(const ServedModel& model) {
  return kBytesPerToken * static_cast<size_t>(max_tokens_of_text(model));
}

size_t text_cost(const Json& json) {
  size_t cost = kCostOfValue;
  if (json.is_string()) return cost + json.get_ref<const std::string&>().size();
  if (json.is_object()) {
    for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) cost += name.size() + text_cost(value);
  } else if (json.is_array()) {
    for (const Json& item : json) cost += text_cost(item);
  }
  return cost;
}

ApiStatus check_prompt_text(size_t bytes, const ServedModel& model, const std::string& param) {
  const size_t most = max_text_bytes(model);
  if (bytes <= most) return {};
  return invalid_request(format("prompt is too long: {} bytes of text > {} maximum. This model's maximum context "
                                "length is {} tokens; shorten the prompt, or start the server with a larger --ctx",
                                bytes, most, model.context),
                         param, "context_length_exceeded");
}

ApiStatus check_size(size_t size, size_t most, const char* unit, const std::string& param) {
  if (size <= most) return {};
  const std::string message = format("{} has {} {}, and {} are allowed; send it in parts", param, size, unit, most);
  ApiError error = invalid_request(message, param, "text_too_large");
  error.http_status = 413;
  return error;
}

}  // namespace strata::server
