// The endpoints, one file each; their rows are in registry.cpp.
#pragma once

#include "server/api/endpoint.h"

namespace strata::server {

const Endpoint& chat_completions();
const Endpoint& completions();
const Endpoint& responses();
const Endpoint& messages();
const Endpoint& count_tokens();
const Endpoint& list_models();
const Endpoint& get_model();
const Endpoint& embeddings();

}  // namespace strata::server
