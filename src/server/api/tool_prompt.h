// Tools for models whose chat template knows none: they are told of them in words, in the format that most models have
// seen, and what was called before is put into words too.
#pragma once

#include "server/api/json.h"

namespace strata::server {

// `messages` then has roles and contents only that any template takes. Calls are answered as kHermesTools reads them.
void describe_tools(Json& messages, const Json& tools);

}  // namespace strata::server
