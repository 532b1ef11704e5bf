// What a command of the program is: one file in commands/ and one row in commands/registry.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"

namespace strata::cli {

using Words = std::span<const std::string>;

struct Command {
  const char* name;
  const char* arguments;  // for the usage line, "[MODEL] [PROMPT]"
  const char* summary;    // one sentence without its period
  uint32_t scope;         // the settings it takes, beside the global ones
  // Puts the arguments that are not flags into settings. Flags have been set, the environment has not been read.
  Status (*take_words)(Words words, Settings& settings);
  // An error without a message ends the program without a word.
  Status (*run)(const Settings& settings);
};

std::span<const Command* const> all_commands();
// null when there is none of this name.
const Command* find_command(std::string_view name);
// "run, inspect, ...", for messages.
std::string command_names();

// Sets what an argument without a flag stands for; kBadInput when its flag was given too.
Status give(Settings& settings, Key key, const std::string& value);
// take_words of commands whose one argument is the model, and of those that have none.
Status take_model(Words words, Settings& settings);
Status take_nothing(Words words, Settings& settings);

}  // namespace strata::cli
