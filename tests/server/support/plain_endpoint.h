// The simplest API there could be, for tests of what lies below the real ones.
//
// POST /plain {"tokens": 3, "stream": false, "n": 1, "prompt": 5} -> {"text": ["xxx"], "finish": [2]}, or as a stream
// an event with each piece of text, then "[DONE]". GET /things/{name} -> {"name"}.
#pragma once

#include "server/api/endpoint.h"

namespace strata::server {

std::vector<const Endpoint*> plain_endpoints();

}  // namespace strata::server
