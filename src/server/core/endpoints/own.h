// Endpoints that are no dialect of a chat API: what clients use to count and to look into prompts.
#pragma once

#include <span>

#include "server/api/endpoint.h"

namespace strata::server {

std::span<const Endpoint* const> own_endpoints();

// The members, for their rows.
const Endpoint& tokenize_endpoint();
const Endpoint& detokenize_endpoint();
const Endpoint& apply_template_endpoint();

}  // namespace strata::server
