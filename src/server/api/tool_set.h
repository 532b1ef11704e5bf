// The tools that a request offers.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "server/api/json.h"

namespace strata::server {

class ToolSet {
 public:
  ToolSet() = default;
  // `tools`: [{"type": "function", "function": {"name", "parameters"}}], checked before.
  explicit ToolSet(const Json& tools);

  bool empty() const { return parameters_.empty(); }
  bool has(std::string_view name) const { return parameters_.find(name) != parameters_.end(); }
  // The schema of one argument; null where nothing is known of it.
  const Json* argument(std::string_view tool, std::string_view argument) const;

 private:
  std::map<std::string, Json, std::less<>> parameters_;  // schemas by name
};

}  // namespace strata::server
