// What the pieces of a stream add up to, in a form that whole replies can be brought into as well.
#pragma once

#include "server/api/api_rig.h"

namespace strata::server {

// {"content", "reasoning_content", "tool_calls": [{"name", "text"}], "finish"} of a choice of a chat: from its deltas,
// and from a whole reply.
Json put_together(const Reply& reply, int index = 0);
Json whole_message(const Json& choice);

// The "content" of a message of Anthropic's API from its blocks and deltas.
Json put_blocks_together(const Reply& reply);

}  // namespace strata::server
