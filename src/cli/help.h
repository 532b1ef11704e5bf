// What --help prints, made from the commands and the settings table.
#pragma once

#include <string>

#include "cli/command.h"

namespace strata::cli {

// "strata 0.1.0"
std::string version_text();
std::string program_help();
std::string command_help(const Command& command);

}  // namespace strata::cli
