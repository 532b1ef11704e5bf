// Rendering templates in tests.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace strata::text::jinja::test {

// 2026-01-05 09:07:00, a Monday.
std::tm fixed_time();

// Options with that time, and the limits given.
RenderOptions fixed_options(const Limits& limits = {});

// With the members of `variables`; those named in `content` are content.
Result<MarkedText> render(const std::string& source, const nlohmann::ordered_json& variables,
                          const std::vector<std::string>& content = {}, const RenderOptions& options = fixed_options());

// The text; fails the running test when there is none.
std::string text_of(const std::string& source,
                    const nlohmann::ordered_json& variables = nlohmann::ordered_json::object());

// The message of the failure; fails the running test when there is none.
std::string error_of(const std::string& source,
                     const nlohmann::ordered_json& variables = nlohmann::ordered_json::object(),
                     const Limits& limits = {});

}  // namespace strata::text::jinja::test
