#include "cli/help.h"

#include <algorithm>

#include "base/format.h"
#include "cli/arguments.h"

namespace strata::cli {
namespace {

constexpr size_t kTextColumn = 26;
constexpr size_t kLineWidth = 100;

// `text` from kTextColumn on, broken between words; `label` in front of the first line, or on a line of its own.
std::string entry(std::string label, const std::string& text) {
  std::string out = std::move(label);
  if (out.size() + 2 > kTextColumn) out += '\n';
  size_t column = out.ends_with('\n') ? 0 : out.size();
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (column > kTextColumn && column + 1 + word.size() > kLineWidth) {
      out += '\n';
      column = 0;
    }
    const size_t blanks = column < kTextColumn ? kTextColumn - column : 1;
    out += std::string(blanks, ' ');
    out += word;
    column += blanks + word.size();
  }
  return out + "\n";
}

std::string value_name(const Setting& row) {
  switch (row.type) {
    case SettingType::kInt: return "N";
    case SettingType::kFloat: return "X";
    case SettingType::kText: return "TEXT";
    case SettingType::kChoice: return row.choices;
    case SettingType::kSwitch: return "on|off";
  }
  return "";
}

std::string flag_entry(const Setting& row) {
  const char letter = short_flag(row.key);
  std::string label = letter == '\0' ? std::string("      ") : format("  -{}, ", letter);
  if (row.type == SettingType::kSwitch) {
    label += format("--[no-]{}", row.name);
  } else {
    label += format("--{} {}", row.name, value_name(row));
  }
  const std::string unit = *row.unit == '\0' ? "" : format(" {}", row.unit);
  const bool is_number = row.type == SettingType::kInt || row.type == SettingType::kFloat;
  const std::string range = is_number ? format("{} to {}{}; ", row.min, row.max, unit) : "";
  const std::string fallback = *row.default_text == '\0' ? "" : format("default {}; ", row.default_text);
  return entry(label, format("{} ({}{}{})", row.help, range, fallback, environment_name(row)));
}

template <class Belongs>
std::string flag_group(const char* title, const Belongs& belongs) {
  std::string group;
  for (const Setting& row : all_settings()) {
    if (belongs(row)) group += flag_entry(row);
  }
  return group.empty() ? "" : format("\n{}:\n{}", title, group);
}

}  // namespace

std::string version_text() { return "strata " STRATA_VERSION; }

std::string program_help() {
  std::string text =
      "Usage: strata COMMAND [ARGUMENTS] [FLAGS]\n\n"
      "Runs mixture-of-experts language models that are larger than RAM.\n\nCommands:\n";
  for (const Command* command : all_commands()) text += entry(format("  {}", command->name), command->summary);
  return text +
         "\n'strata COMMAND --help' lists a command's flags; 'strata --version' prints the version.\n"
         "Exit codes: 0 done, 1 failed, 2 something in the command line, the input or a file has to be changed.\n";
}

std::string command_help(const Command& command) {
  const auto global = [](const Setting& row) { return (row.scope & kScopeGlobal) != 0; };
  const auto computing = [&](const Setting& row) {
    constexpr uint32_t kComputing = kScopeRun | kScopeEval;
    return (row.scope & kComputing) == kComputing && (row.scope & command.scope & kScopeEngine) != 0;
  };
  const auto own = [&](const Setting& row) {
    return (row.scope & command.scope) != 0 && !global(row) && !computing(row);
  };
  const char* blank = *command.arguments == '\0' ? "" : " ";
  std::string text = format("Usage: strata {}{}{} [FLAGS]\n\n{}.\n", command.name, blank, command.arguments,
                            command.summary);
  text += flag_group("Flags of this command", own);
  text += flag_group("Computing", computing);
  text += flag_group("Flags of every command", global);
  text += entry("  -h, --help", "Print this");
  return text +
         "\nFlags are written --name VALUE or --name=VALUE; after -- nothing is a flag. What no flag says is taken\n"
         "from the environment variable named in parentheses, else from the default.\n";
}

}  // namespace strata::cli
