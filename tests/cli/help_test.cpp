// Goal: help and page say everything of the table, and nothing twice.
#include "cli/help.h"

#include <sstream>

#include <gtest/gtest.h>

#include "cli/arguments.h"
#include "cli/program.h"
#include "support/golden.h"

namespace strata::cli {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) n++;
  return n;
}

TEST(Help, ListsExactlyTheFlagsOfACommand) {
  for (const Command* command : all_commands()) {
    const std::string help = command_help(*command);
    EXPECT_EQ(help.find("Usage: strata " + std::string(command->name)), 0u);
    for (const Setting& row : all_settings()) {
      const bool is_switch = row.type == SettingType::kSwitch;
      const char letter = short_flag(row.key);
      const std::string label = letter == '\0' ? "\n      " : std::string("\n  -") + letter + ", ";
      const std::string flag = label + (is_switch ? "--[no-]" : "--") + row.name + (is_switch ? "" : " ");
      const size_t expected = (row.scope & (command->scope | kScopeGlobal)) != 0 ? 1 : 0;
      EXPECT_EQ(count(help, flag), expected) << command->name << " " << flag;
      EXPECT_EQ(count(help, environment_name(row) + ")"), expected) << command->name << " " << row.name;
    }
  }
}

TEST(Help, NamesDefaultsAndRanges) {
  std::istringstream words(command_help(*find_command("run")));
  std::string help;  // without its line breaks
  for (std::string word; words >> word;) help += word + " ";
  EXPECT_NE(help.find("default 0.8"), std::string::npos);
  EXPECT_NE(help.find("--kv-type auto|f32|f16|bf16|q8_0"), std::string::npos);
  EXPECT_NE(help.find("-n, --predict N"), std::string::npos);
  EXPECT_NE(help.find("-p, --prompt TEXT"), std::string::npos);
}

TEST(Help, FitsATerminal) {
  for (const Command* command : all_commands()) {
    std::istringstream lines(command_help(*command) + program_help());
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 120u) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
}

TEST(Help, ListsEveryCommand) {
  for (const Command* command : all_commands()) {
    EXPECT_EQ(count(program_help(), "\n  " + std::string(command->name) + " "), 1u) << command->name;
    EXPECT_EQ(find_command(command->name), command);
  }
  EXPECT_EQ(find_command(""), nullptr);
  EXPECT_EQ(find_command("ru"), nullptr);
}

TEST(SettingsPage, IsCurrent) {
  const std::vector<uint8_t> page = test::read_bytes(STRATA_SOURCE_DIR "/docs/SETTINGS.md");
  const std::string committed(page.begin(), page.end());
  EXPECT_TRUE(committed == settings_markdown()) << "make it again: strata settings > docs/SETTINGS.md";
}

TEST(Program, PrintsHelpVersionAndPage) {
  const test::Outcome version = test::strata({"--version"});
  EXPECT_TRUE(test::succeeded(version));
  EXPECT_EQ(version.out, version_text() + "\n");
  EXPECT_EQ(version.out.find("strata "), 0u);
  for (const char* flag : {"--help", "-h"}) {
    const test::Outcome help = test::strata({flag});
    EXPECT_TRUE(test::succeeded(help));
    EXPECT_EQ(help.out, program_help());
  }
  for (const Command* command : all_commands()) {
    const test::Outcome help = test::strata({command->name, "--help"});
    EXPECT_TRUE(test::succeeded(help));
    EXPECT_EQ(help.out, command_help(*command));
  }
  const test::Outcome page = test::strata({"settings"});
  EXPECT_TRUE(test::succeeded(page));
  EXPECT_EQ(page.out, settings_markdown());
}

TEST(Program, WithoutACommandPrintsHelpOnStderr) {
  const test::Outcome outcome = test::strata({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, program_help());
}

}  // namespace
}  // namespace strata::cli
