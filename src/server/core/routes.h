// All endpoints of a server: those of the APIs, and the core's own.
#pragma once

#include <vector>

#include "server/api/endpoint.h"

namespace strata::server {

// Exact paths first.
std::vector<const Endpoint*> all_endpoints();

}  // namespace strata::server
