// <tool_call>{"name": "f", "arguments": {...}}</tool_call>: Hermes, Qwen 2.5, Qwen 3 and those who learned from them.
#include "server/api/dialects/json_call.h"

namespace strata::server {
namespace {

constexpr std::string_view kSigns[] = {"<tool_call>"};
constexpr std::string_view kMarks[] = {"<tool_call>", "</tool_call>"};
constexpr Mark kRoles[] = {{"<tool_call>", Mark::kOpener}, {"</tool_call>", Mark::kCloser}};

std::unique_ptr<ToolCallParser> make(const ToolSet&) {
  const auto reader = [](std::string_view opener) { return std::make_unique<JsonCallReader>(std::string(opener)); };
  return std::make_unique<MarkedParser>(kRoles, false, reader);
}

}  // namespace

const ToolDialect kHermesTools = {.name = "hermes", .signs = kSigns, .marks = kMarks, .make = make};

}  // namespace strata::server
