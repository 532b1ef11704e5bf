#include <algorithm>

#include "server/api/dialects/dialect.h"

namespace strata::server {

// Those with more particular signs first: <tool_call> alone is of several.
std::span<const ToolDialect* const> tool_dialects() {
  static constexpr const ToolDialect* kDialects[] = {&kHarmonyTools, &kDeepSeekTools, &kGlmTools,
                                                     &kQwenXmlTools, &kHermesTools,   &kLlama3Tools};
  return kDialects;
}

const ToolDialect* find_tool_dialect(std::string_view chat_template) {
  const auto in_template = [&](std::string_view sign) { return chat_template.find(sign) != std::string_view::npos; };
  for (const ToolDialect* dialect : tool_dialects()) {
    if (std::all_of(dialect->signs.begin(), dialect->signs.end(), in_template)) return dialect;
  }
  return nullptr;
}

}  // namespace strata::server
