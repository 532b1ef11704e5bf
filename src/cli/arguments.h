// The arguments of a command: flags made from the settings table, and words.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace strata::cli {

struct Arguments {
  Settings settings;               // with what the flags say
  std::vector<std::string> words;  // what is neither a flag nor a flag's value, in order
  bool help = false;
};

// `args`: what follows the command's name. Understood: --name VALUE, --name=VALUE, the short form; of switches also
// --name and --no-name, where an on or off that follows --name is its value; -h and --help; after -- all is words.
// kBadInput for unknown and repeated flags, flags without a value, and values that the table does not allow.
Result<Arguments> parse_arguments(const Command& command, Words args);

// The letter of a setting's short flag; '\0' for none.
char short_flag(Key key);

}  // namespace strata::cli
