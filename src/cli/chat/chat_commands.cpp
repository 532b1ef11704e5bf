#include "cli/chat/chat_commands.h"

#include "base/format.h"

namespace strata::cli {
namespace {

enum class Wants { kNothing, kMaybe, kArgument };

struct Row {
  ChatCommandKind kind;
  std::string_view name;
  Wants wants;
  const char* usage;
  const char* help;
};

constexpr Row kRows[] = {
    {ChatCommandKind::kHelp, "/help", Wants::kNothing, "/help", "list the commands"},
    {ChatCommandKind::kReset, "/reset", Wants::kNothing, "/reset", "forget all messages but that of the system"},
    {ChatCommandKind::kSystem, "/system", Wants::kMaybe, "/system TEXT", "set the system message; without TEXT, none"},
    {ChatCommandKind::kRegenerate, "/regen", Wants::kNothing, "/regen", "answer the last message again"},
    {ChatCommandKind::kEdit, "/edit", Wants::kArgument, "/edit TEXT", "replace the last message, and answer it"},
    {ChatCommandKind::kSave, "/save", Wants::kArgument, "/save FILE", "write the messages to a JSON file"},
    {ChatCommandKind::kLoad, "/load", Wants::kArgument, "/load FILE", "go on from messages that were saved"},
    {ChatCommandKind::kSet, "/set", Wants::kArgument, "/set NAME VALUE", "change a setting of answers, as temp 0.5"},
    {ChatCommandKind::kQuit, "/quit", Wants::kNothing, "/quit", "leave"},
    {ChatCommandKind::kQuit, "/exit", Wants::kNothing, "/exit", "leave"},
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

}  // namespace

bool is_chat_command(std::string_view line) { return line.starts_with('/') && !line.starts_with("//"); }

Result<ChatCommand> parse_chat_command(std::string_view line) {
  const std::string_view name = line.substr(0, line.find_first_of(" \t\n"));
  const std::string_view argument = trimmed(line.substr(name.size()));
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    const bool wrong = argument.empty() ? row.wants == Wants::kArgument : row.wants == Wants::kNothing;
    if (wrong) return Error{ErrorCode::kBadInput, format("write {}: {}", row.usage, row.help)};
    return ChatCommand{row.kind, std::string(argument)};
  }
  return Error{ErrorCode::kBadInput, format("there is no command {}; /help lists them, and // begins a message with a "
                                            "slash", printable(name))};
}

std::string chat_help() {
  std::string text;
  for (const Row& row : kRows) text += format("{:<17}{}\n", row.usage, row.help);
  return text +
         "A line that ends in \\ goes on with the next one; // begins a message with a slash. Ctrl-C stops an answer,\n"
         "and again at the prompt, or Ctrl-D, leaves.\n";
}

}  // namespace strata::cli
