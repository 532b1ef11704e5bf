// Grammars of the streams: what may follow what. Each gives "" or what is wrong first.
#pragma once

#include <string>
#include <vector>

#include "server/api/api_rig.h"

namespace strata::server {

// Chunks of a chat ("chat.completion.chunk") or a completion ("text_completion").
std::string fault_of_chunks(const std::vector<SseEvent>& events, const std::string& object, bool with_usage);
std::string fault_of_message_stream(const std::vector<SseEvent>& events);
std::string fault_of_response_stream(const std::vector<SseEvent>& events);

}  // namespace strata::server
