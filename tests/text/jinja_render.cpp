#include "text/jinja_render.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace strata::text::jinja::test {

std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mday = 5;
  time.tm_yday = 4;
  time.tm_wday = 1;
  time.tm_hour = 9;
  time.tm_min = 7;
  return time;
}

RenderOptions fixed_options(const Limits& limits) {
  return {.limits = limits, .now = fixed_time, .is_trusted = {}};
}

Result<MarkedText> render(const std::string& source, const nlohmann::ordered_json& variables,
                          const std::vector<std::string>& content, const RenderOptions& options) {
  ASSIGN_OR_RETURN(const auto parsed, Template::parse(source, "test"));
  std::vector<Variable> given;
  for (const auto& [name, value] : variables.items()) {
    given.push_back({name, &value, std::find(content.begin(), content.end(), name) != content.end()});
  }
  return parsed->render(given, options);
}

std::string text_of(const std::string& source, const nlohmann::ordered_json& variables) {
  const auto text = render(source, variables);
  if (text.ok()) return text->bytes();
  ADD_FAILURE() << source << ": " << text.error().message;
  return "";
}

std::string error_of(const std::string& source, const nlohmann::ordered_json& variables, const Limits& limits) {
  const auto text = render(source, variables, {}, fixed_options(limits));
  if (!text.ok()) return text.error().message;
  ADD_FAILURE() << source.substr(0, 200) << " gives " << text->bytes().substr(0, 200);
  return "";
}

}  // namespace strata::text::jinja::test
