// What run --connect says of the user's settings to a server.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/settings.h"

namespace strata::cli {

// kBadInput for a flag that only counts where the model runs, by name. For settings before the environment is read:
// that may be meant for other calls.
Status check_remote_flags(const Settings& settings);

// Adds to a request what the user has set of the sampler and of the answer's length, in the names of OpenAI's API and
// where that has none in those that GGUF servers share; the rest is left to the server. kBadInput for a value that no
// request can carry.
Status add_remote_settings(const Settings& settings, nlohmann::ordered_json& body);

// The flag, with its dashes, from which add_remote_settings() has taken a field that a server calls "temperature" or
// "logit_bias.5"; "" for another field, and for one that the user has not set.
std::string remote_flag(const Settings& settings, std::string_view field);

}  // namespace strata::cli
