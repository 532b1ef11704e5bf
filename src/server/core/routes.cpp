#include "server/core/routes.h"

#include <algorithm>

#include "server/core/endpoints/own.h"

namespace strata::server {

std::vector<const Endpoint*> all_endpoints() {
  std::vector<const Endpoint*> all(endpoints().begin(), endpoints().end());
  all.insert(all.end(), own_endpoints().begin(), own_endpoints().end());
  std::stable_partition(all.begin(), all.end(), [](const Endpoint* endpoint) {
    return endpoint->path().find('{') == std::string_view::npos;
  });
  return all;
}

}  // namespace strata::server
