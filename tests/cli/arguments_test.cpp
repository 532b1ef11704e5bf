// Goal: every form of every flag means what the header promises, and texts arrive as they were given.
#include "cli/arguments.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace strata::cli {
namespace {

using Args = std::vector<std::string>;

Result<Arguments> parse(const char* command, const Args& args) { return parse_arguments(*find_command(command), args); }

Arguments good(const char* command, const Args& args) {
  Result<Arguments> parsed = parse(command, args);
  if (parsed.ok()) return std::move(parsed).value();
  ADD_FAILURE() << parsed.error().message;
  return {};
}

std::string message(const char* command, const Args& args) {
  const Result<Arguments> parsed = parse(command, args);
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().code, ErrorCode::kBadInput);
  return parsed.error().message;
}

TEST(ParseArguments, NothingIsTheDefaults) {
  const Arguments arguments = good("run", {});
  EXPECT_FALSE(arguments.help);
  EXPECT_TRUE(arguments.words.empty());
  for (const Setting& row : all_settings()) EXPECT_FALSE(arguments.settings.is_set(row.key)) << row.name;
}

TEST(ParseArguments, TakesValuesInEveryForm) {
  for (const Args& args : {Args{"--predict", "5"}, Args{"--predict=5"}, Args{"-n", "5"}, Args{"-n5"}}) {
    EXPECT_EQ(good("run", args).settings.integer(Key::kPredict), 5) << args[0];
  }
  for (const Args& args : {Args{"--prompt", "a b"}, Args{"--prompt=a b"}, Args{"-p", "a b"}, Args{"-pa b"}}) {
    EXPECT_EQ(good("run", args).settings.text(Key::kPrompt), "a b") << args[0];
  }
}

TEST(ParseArguments, TakesSwitchesInEveryForm) {
  const struct {
    Args args;
    bool on;
    Args words;
  } cases[] = {
      {{"--graph"}, true, {}},           {{"--graph", "on"}, true, {}},    {{"--graph", "off"}, false, {}},
      {{"--graph=on"}, true, {}},        {{"--graph=off"}, false, {}},     {{"--no-graph"}, false, {}},
      {{"--graph", "a"}, true, {"a"}},   {{"--no-graph", "on"}, false, {"on"}},
      {{"--graph", "on", "off"}, true, {"off"}},                           {{"--graph", "--", "off"}, true, {"off"}},
      {{"--graph", "ON"}, true, {"ON"}}, {{"--graph", "-n", "1"}, true, {}},
  };
  for (const auto& c : cases) {
    const Arguments arguments = good("run", c.args);
    EXPECT_TRUE(arguments.settings.is_set(Key::kGraph));
    EXPECT_EQ(arguments.settings.on(Key::kGraph), c.on) << ::testing::PrintToString(c.args);
    EXPECT_EQ(arguments.words, c.words) << ::testing::PrintToString(c.args);
  }
}

TEST(ParseArguments, EveryRowIsAFlagOfItsCommandsAndOfNoOther) {
  for (const Command* command : all_commands()) {
    for (const Setting& row : all_settings()) {
      const std::string flag = std::string("--") + row.name;
      const std::string value = std::string_view(row.default_text).empty() ? "x" : row.default_text;
      const bool taken = (row.scope & (command->scope | kScopeGlobal)) != 0;
      EXPECT_EQ(parse(command->name, {flag, value}).ok(), taken) << command->name << " " << flag;
      EXPECT_EQ(parse(command->name, {flag + "=" + value}).ok(), taken) << command->name << " " << flag;
      const bool is_switch = taken && row.type == SettingType::kSwitch;
      const std::string inverse = std::string("--no-") + row.name;
      EXPECT_EQ(parse(command->name, {inverse}).ok(), is_switch) << command->name << " " << inverse;
    }
  }
}

TEST(ParseArguments, KeepsWordsInOrderAndFlagsAnywhere) {
  const Arguments arguments =
      good("run", {"a", "-n", "3", "b", "--raw", "c", "--temp=0", "-", "", "--", "-p", "--", "d"});
  EXPECT_EQ(arguments.words, (Args{"a", "b", "c", "-", "", "-p", "--", "d"}));
  EXPECT_EQ(arguments.settings.integer(Key::kPredict), 3);
  EXPECT_TRUE(arguments.settings.on(Key::kRaw));
  EXPECT_FALSE(arguments.settings.is_set(Key::kPrompt));
}

TEST(ParseArguments, AsksForHelp) {
  for (const char* flag : {"-h", "--help"}) {
    EXPECT_TRUE(good("run", {flag}).help);
    EXPECT_TRUE(good("settings", {flag}).help);
    EXPECT_TRUE(good("run", {"x", flag, "--temp", "0"}).help);
  }
  EXPECT_FALSE(good("run", {"--", "-h"}).help);
  EXPECT_FALSE(good("run", {"-p", "--help"}).help);
}

TEST(ParseArguments, RefusesWithOneReason) {
  const struct {
    Args args;
    const char* text;
  } cases[] = {
      {{"--foo"}, "unknown flag '--foo'"},
      {{"--foo=3"}, "unknown flag '--foo'"},
      {{"a", "--foo", "b"}, "unknown flag '--foo'"},
      {{"-x"}, "unknown flag '-x'"},
      {{"-5"}, "unknown flag '-5'"},
      {{"---"}, "unknown flag '---'"},
      {{"- item"}, "unknown flag '- item'"},
      {{"--=x"}, "unknown flag '--'"},
      {{"--Temp", "0"}, "unknown flag '--Temp'"},
      {{"--tem", "0"}, "unknown flag '--tem'"},
      {{"--no-temp"}, "unknown flag '--no-temp'"},
      {{"--no-foo"}, "unknown flag '--no-foo'"},
      {{"--ids-file", "x"}, "unknown flag '--ids-file'"},
      {{"--@0"}, "unknown flag '--@0'"},
      {{"--temp"}, "--temp needs a value"},
      {{"-n"}, "-n needs a value"},
      {{"--temp="}, "--temp: '' is not allowed"},
      {{"--temp", "--raw"}, "--temp: '--raw' is not allowed"},
      {{"--temp", "1", "--temp", "1"}, "--temp is given twice"},
      {{"-n", "1", "--predict=1"}, "--predict is given twice"},
      {{"--graph", "--no-graph"}, "--graph is given twice"},
      {{"--no-graph=on"}, "--no-graph takes no value"},
      {{"--graph=yes"}, "--graph: 'yes' is not allowed; give on or off"},
      {{"--top-p", "1.5"}, "--top-p: '1.5' is not allowed; give a number from 0 to 1"},
      {{"-n", "-1"}, "--predict: '-1' is not allowed"},
      {{"--kv-type", "q8"}, "--kv-type: 'q8' is not allowed; give one of auto|f32|f16|bf16|q8_0"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(message("run", c.args).substr(0, std::string_view(c.text).size()), c.text);
  }
}

// Texts that a parser may find a meaning in.
TEST(ParseArguments, PassesOnTextsAsTheyAre) {
  for (const char* text : {"", "{}", "[]", "[a,b]", "[[aa]]", "%%", "@0", "a=b", "\"quoted\"", "'", "\\n", "#", "on",
                           "off", "run", "--help", "-h", "--", "++", "\xff\xfe", "two\nlines", "B\"(a)\""}) {
    EXPECT_EQ(good("run", {"-p", text}).settings.text(Key::kPrompt), text);
    EXPECT_EQ(good("run", {std::string("--prompt=") + text}).settings.text(Key::kPrompt), text);
    EXPECT_EQ(good("run", {"--", text}).words, Args{text});
  }
}

TEST(ParseArguments, PassesOnAnyText) {
  EXPECT_TRUE(rc::check("texts arrive as they were given", [](const std::string& prompt, const Args& words) {
    Args args = {"-p", prompt, "--raw", "--"};
    args.insert(args.end(), words.begin(), words.end());
    const Result<Arguments> parsed = parse("run", args);
    RC_ASSERT(parsed.ok());
    RC_ASSERT(parsed->settings.text(Key::kPrompt) == prompt);
    RC_ASSERT(parsed->words == words);
  }));
}

TEST(ParseArguments, AnswersWhateverItIsGiven) {
  EXPECT_TRUE(rc::check("no arguments crash the parser", [] {
    const auto known = rc::gen::element<std::string>("--", "-", "-p", "-n", "--temp", "--graph", "--no-graph", "on",
                                                     "off", "--x=", "-h");
    const auto piece = rc::gen::oneOf(rc::gen::arbitrary<std::string>(), known);
    const Args args = *rc::gen::container<Args>(piece);
    const Result<Arguments> parsed = parse("run", args);
    if (!parsed.ok()) RC_ASSERT(!parsed.error().message.empty());
  }));
}

}  // namespace
}  // namespace strata::cli
