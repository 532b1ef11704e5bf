// Conversations as requests bring them, made fit for a template.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/chat_abilities.h"

namespace strata::text {

// kBadInput names the message that is not one.
Result<nlohmann::ordered_json> fit_messages(const nlohmann::ordered_json& messages, const ChatAbilities& abilities);

// Null for no tools. Descriptions that are null become empty. kBadInput for what is neither null nor an array of
// objects.
Result<nlohmann::ordered_json> fit_tools(const nlohmann::ordered_json* tools);

// Tools whose description or parameters are absent, with empty ones: for templates that rely on them.
nlohmann::ordered_json with_all_fields(const nlohmann::ordered_json& tools);

}  // namespace strata::text
