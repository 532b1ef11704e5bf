#include "server/api/tool_set.h"

namespace strata::server {

ToolSet::ToolSet(const Json& tools) {
  for (const Json& tool : tools) {
    const Fields function(tool.at("function"));
    const Json* parameters = function.find("parameters");
    parameters_.emplace(function.find("name")->get<std::string>(), parameters != nullptr ? *parameters : Json());
  }
}

const Json* ToolSet::argument(std::string_view tool, std::string_view argument) const {
  const auto found = parameters_.find(tool);
  if (found == parameters_.end() || !found->second.is_object()) return nullptr;
  const auto properties = found->second.find("properties");
  if (properties == found->second.end() || !properties->is_object()) return nullptr;
  const auto schema = properties->find(std::string(argument));
  return schema == properties->end() ? nullptr : &*schema;
}

}  // namespace strata::server
