// {"name": "f", "parameters": {...}}, with or without <|python_tag|> in front, several with semicolons between them:
// Llama 3.1 and later. An object without the tag is a call only at the start of an answer and only of a tool that there
// is: such models also answer with JSON.
#include "server/api/dialects/json_call.h"

namespace strata::server {
namespace {

constexpr std::string_view kSigns[] = {"<|start_header_id|>", "tool_calls"};
constexpr std::string_view kTag = "<|python_tag|>";
constexpr std::string_view kMarks[] = {kTag};
constexpr Mark kRoles[] = {{kTag, Mark::kOpener},
                           {"{", Mark::kOpener, true},
                           {";", Mark::kCloser}};

std::unique_ptr<ToolCallParser> make(const ToolSet& tools) {
  const auto reader = [&tools](std::string_view opener) -> std::unique_ptr<CallReader> {
    if (opener == kTag) return std::make_unique<JsonCallReader>(std::string(opener));
    auto bare = std::make_unique<JsonCallReader>("", [&tools](const std::string& name) { return tools.has(name); });
    EventWriter nowhere;
    bare->push('{', nowhere);
    return bare;
  };
  return std::make_unique<MarkedParser>(kRoles, false, reader);
}

}  // namespace

const ToolDialect kLlama3Tools = {.name = "llama3", .signs = kSigns, .marks = kMarks, .make = make};

}  // namespace strata::server
