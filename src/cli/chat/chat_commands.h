// The commands of a chat: lines that begin with a slash.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace strata::cli {

enum class ChatCommandKind { kHelp, kReset, kSystem, kRegenerate, kEdit, kSave, kLoad, kSet, kQuit };

struct ChatCommand {
  ChatCommandKind kind;
  std::string argument;  // without the white space around it; not empty where the command needs one
};

// Whether a typed line is a command. A message that is to begin with a slash is written with two.
bool is_chat_command(std::string_view line);
// kBadInput for unknown names, and arguments that are missing or not wanted.
Result<ChatCommand> parse_chat_command(std::string_view line);
// One line each.
std::string chat_help();

}  // namespace strata::cli
