#include "cli/command.h"

#include "base/format.h"

namespace strata::cli {

const Command* find_command(std::string_view name) {
  for (const Command* command : all_commands()) {
    if (name == command->name) return command;
  }
  return nullptr;
}

std::string command_names() {
  std::string names;
  for (const Command* command : all_commands()) names += (names.empty() ? "" : ", ") + std::string(command->name);
  return names;
}

Status give(Settings& settings, Key key, const std::string& value) {
  const char* name = setting(key).name;
  if (settings.is_set(key)) {
    return Error{ErrorCode::kBadInput,
                 format("the {} is given twice: with its flag, and as '{}'", name, printable(value))};
  }
  return settings.set(key, value, name);
}

Status take_model(Words words, Settings& settings) {
  if (words.size() > 1) {
    return Error{ErrorCode::kBadInput, format("one model is wanted, but {} arguments were given", words.size())};
  }
  return words.empty() ? Status() : give(settings, Key::kModel, words[0]);
}

Status take_nothing(Words words, Settings&) {
  if (words.empty()) return {};
  return Error{ErrorCode::kBadInput, format("unexpected argument '{}'", printable(words[0]))};
}

}  // namespace strata::cli
