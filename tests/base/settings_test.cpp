#include "base/settings.h"

#include <cmath>
#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

namespace strata {
namespace {

// Sets a variable of the environment for the time of a test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

TEST(SettingsTableTest, RowsAreUniqueAndFoundByName) {
  std::set<std::string> names, environment_names;
  for (const Setting& row : all_settings()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(environment_names.insert(environment_name(row)).second) << row.name;
    EXPECT_EQ(find_setting(row.name), &row);
    EXPECT_EQ(&setting(row.key), &row);
    EXPECT_NE(row.scope, 0u) << row.name;
    EXPECT_EQ(*row.choices != '\0', row.type == SettingType::kChoice) << row.name;
    EXPECT_FALSE(std::string_view(row.help).empty() || std::string_view(row.help).ends_with('.')) << row.name;
  }
  EXPECT_EQ(find_setting("no-such-setting"), nullptr);
  EXPECT_EQ(find_setting(""), nullptr);
  EXPECT_EQ(environment_name(setting(Key::kKvType)), "STRATA_KV_TYPE");
}

TEST(SettingsTest, StartsFromTheDefaults) {
  const Settings settings;
  EXPECT_TRUE(settings.is_auto(Key::kCtx));
  EXPECT_TRUE(settings.is_auto(Key::kPrefill));
  EXPECT_EQ(settings.number(Key::kTemp), 0.8);
  EXPECT_TRUE(settings.on(Key::kGraph));
  EXPECT_FALSE(settings.on(Key::kStats));
  EXPECT_EQ(settings.text(Key::kKvType), "auto");
  EXPECT_EQ(settings.text(Key::kCpus), "");
  for (const Setting& row : all_settings()) EXPECT_FALSE(settings.is_set(row.key)) << row.name;
}

TEST(SettingsTest, TakesWhatTheTableAllows) {
  Settings settings;
  const struct {
    Key key;
    const char* text;
  } cases[] = {
      {Key::kCtx, "1"},         {Key::kCtx, "16777216"},  {Key::kCtx, "auto"},       {Key::kPrefill, "8192"},
      {Key::kSeed, "0"},        {Key::kSeed, "4294967295"}, {Key::kTemp, "0"},       {Key::kTemp, "1e-3"},
      {Key::kTemp, "100"},      {Key::kTopP, "1"},        {Key::kTopP, "0.0"},       {Key::kRamGib, "1048576"},
      {Key::kKvType, "f16"},    {Key::kKvType, "auto"},   {Key::kKvType, "q8_0"},   {Key::kKvType, "bf16"},
      {Key::kStats, "on"},       {Key::kStats, "off"},
      {Key::kCpus, "0-3,8"},    {Key::kCpus, ""},         {Key::kDevice, "auto"},    {Key::kTopK, "007"},
  };
  for (const auto& c : cases) {
    const Status status = settings.set(c.key, c.text, "--flag");
    EXPECT_TRUE(status.ok()) << c.text << ": " << (status.ok() ? "" : status.error().message);
    EXPECT_TRUE(settings.is_set(c.key));
  }
  EXPECT_EQ(settings.integer(Key::kSeed), 4294967295);
  EXPECT_EQ(settings.integer(Key::kTopK), 7);
  EXPECT_EQ(settings.number(Key::kTemp), 100);
  EXPECT_EQ(settings.text(Key::kDevice), "auto");
  EXPECT_TRUE(settings.is_auto(Key::kCtx));
}

TEST(SettingsTest, RejectsEverythingElse) {
  const struct {
    Key key;
    const char* text;
  } cases[] = {
      {Key::kCtx, "0"},          {Key::kCtx, "16777217"},  {Key::kCtx, "-1"},        {Key::kCtx, ""},
      {Key::kCtx, "12x"},        {Key::kCtx, "1.5"},       {Key::kCtx, " 1"},        {Key::kCtx, "1 "},
      {Key::kCtx, "+1"},         {Key::kCtx, "0x10"},      {Key::kCtx, "1e3"},       {Key::kCtx, "Auto"},
      {Key::kCtx, "9223372036854775808"},                  {Key::kCtx, "99999999999999999999999"},
      {Key::kPrefill, "0"},        {Key::kSeed, "4294967296"}, {Key::kSeed, "-1"},     {Key::kTemp, "auto"},
      {Key::kTemp, "nan"},       {Key::kTemp, "-nan"},     {Key::kTemp, "inf"},      {Key::kTemp, "-inf"},
      {Key::kTemp, "infinity"},  {Key::kTemp, "1e999"},    {Key::kTemp, "1e-999"},   {Key::kTemp, "-0.1"},
      {Key::kTemp, "100.0001"},  {Key::kTemp, "0.8f"},     {Key::kTemp, ""},         {Key::kTemp, "0,8"},
      {Key::kTemp, "0x1p3"},     {Key::kTopP, "1.0000001"}, {Key::kKvType, "f8"},    {Key::kKvType, ""},
      {Key::kKvType, "F16"},     {Key::kKvType, "f32|f16"}, {Key::kKvType, "f1"},    {Key::kAct, "f16"},
      {Key::kStats, ""},         {Key::kStats, "yes"},     {Key::kStats, "ON"},      {Key::kStats, "1"},
      {Key::kStats, "auto"},
  };
  for (const auto& c : cases) {
    Settings settings;
    const Status status = settings.set(c.key, c.text, "--flag");
    ASSERT_FALSE(status.ok()) << setting(c.key).name << " " << c.text;
    EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
    EXPECT_FALSE(settings.is_set(c.key)) << "a rejected value must leave the old one";
  }
}

TEST(SettingsTest, ErrorsNameOriginValueAndWhatIsAllowed) {
  const struct {
    Key key;
    const char* text;
    const char* origin;
    const char* message;
  } cases[] = {
      {Key::kCtx, "0", "--ctx", "--ctx: '0' is not allowed; give a whole number from 1 to 16777216 tokens, or auto"},
      {Key::kTemp, "hot", "STRATA_TEMP", "STRATA_TEMP: 'hot' is not allowed; give a number from 0 to 100"},
      {Key::kRamGib, "-1", "--ram-gib", "--ram-gib: '-1' is not allowed; give a number from 0 to 1048576 GiB"},
      {Key::kKvType, "\x1b", "--kv-type", "--kv-type: '?' is not allowed; give one of auto|f32|f16|bf16|q8_0"},
      {Key::kStats, "maybe", "--stats", "--stats: 'maybe' is not allowed; give on or off"},
  };
  Settings settings;
  for (const auto& c : cases) EXPECT_EQ(settings.set(c.key, c.text, c.origin).error().message, c.message);
}

TEST(SettingsTest, NegativeZeroIsZero) {
  Settings settings;
  ASSERT_TRUE(settings.set(Key::kTemp, "-0", "--temp").ok());
  EXPECT_FALSE(std::signbit(settings.number(Key::kTemp)));
}

TEST(SettingsTest, TheEnvironmentFillsWhatNoFlagHasSet) {
  const ScopedVariable chunk("STRATA_PREFILL", "64"), temp("STRATA_TEMP", "0.5"), empty("STRATA_TOP_K", "");
  Settings settings;
  ASSERT_TRUE(settings.set(Key::kTemp, "0.25", "--temp").ok());
  ASSERT_TRUE(settings.load_environment(kScopeRun).ok());
  EXPECT_EQ(settings.integer(Key::kPrefill), 64);
  EXPECT_TRUE(settings.is_set(Key::kPrefill));
  EXPECT_EQ(settings.number(Key::kTemp), 0.25);
  EXPECT_FALSE(settings.is_set(Key::kTopK));
  ASSERT_TRUE(settings.set(Key::kPrefill, "32", "--prefill").ok());
  EXPECT_EQ(settings.integer(Key::kPrefill), 32);
}

TEST(SettingsTest, TheEnvironmentIsReadForTheCommandsScopeAndGlobals) {
  const ScopedVariable temp("STRATA_TEMP", "hot"), level("STRATA_LOG_LEVEL", "debug");
  Settings inspecting;
  EXPECT_TRUE(inspecting.load_environment(kScopeInspect).ok());
  EXPECT_EQ(inspecting.text(Key::kLogLevel), "debug");
  Settings running;
  const Status status = running.load_environment(kScopeRun);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(status.error().message.starts_with("STRATA_TEMP: 'hot'")) << status.error().message;
}

TEST(SettingsTest, InTheEnvironmentOneAndZeroSwitchToo) {
  const ScopedVariable verify("STRATA_VERIFY_ARENA", "1"), pin("STRATA_STAGE_PIN", "0"), chunk("STRATA_PREFILL", "1");
  Settings settings;
  ASSERT_TRUE(settings.load_environment(kScopeRun).ok());
  EXPECT_TRUE(settings.on(Key::kVerifyArena));
  EXPECT_FALSE(settings.on(Key::kStagePin));
  EXPECT_EQ(settings.integer(Key::kPrefill), 1);
  const ScopedVariable graph("STRATA_GRAPH", "2");
  Settings refusing;
  EXPECT_FALSE(refusing.load_environment(kScopeRun).ok());
}

TEST(SettingsTest, EnvironmentAnswersEmptyForWhatIsAbsent) {
  EXPECT_EQ(environment("STRATA_NO_SUCH_VARIABLE"), "");
  const ScopedVariable variable("STRATA_TEST_VARIABLE", "value");
  EXPECT_EQ(environment("STRATA_TEST_VARIABLE"), "value");
}

TEST(SettingsDeathTest, ReadingASettingAsWhatItIsNotIsABug) {
  const Settings settings;
  EXPECT_DEATH(static_cast<void>(settings.integer(Key::kCtx)), "is_auto");
  EXPECT_DEATH(static_cast<void>(settings.integer(Key::kTemp)), "kInt");
  EXPECT_DEATH(static_cast<void>(settings.number(Key::kPrefill)), "kFloat");
  EXPECT_DEATH(static_cast<void>(settings.on(Key::kKvType)), "kSwitch");
  EXPECT_DEATH(static_cast<void>(settings.text(Key::kStats)), "kText");
  EXPECT_DEATH(static_cast<void>(settings.is_auto(Key::kKvType)), "kInt");
}

TEST(SettingsMarkdownTest, EveryRowHasALineWithAllItsColumns) {
  const std::string page = settings_markdown();
  for (const Setting& row : all_settings()) {
    const size_t at = page.find("\n| `--" + std::string(row.name) + "`");
    ASSERT_NE(at, std::string::npos) << row.name;
    const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
    int bars = 0;
    for (size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    EXPECT_EQ(bars, 8) << line;
  }
  EXPECT_NE(page.find("| `--kv-type` | `STRATA_KV_TYPE` | `auto` | `auto\\|f32\\|f16\\|bf16\\|q8_0` |  | "
                      "run, eval, bench, plan, profile, serve | "),
            std::string::npos);
  EXPECT_NE(page.find("| `--ctx` | `STRATA_CTX` | `auto` | 1 to 16777216, or auto | tokens | "
                      "run, eval, bench, plan, profile, serve | "),
            std::string::npos);
  EXPECT_NE(page.find("| `--stats`, `--no-stats` | `STRATA_STATS` | `off` | `on\\|off` |  | "
                      "run, eval, bench, serve | "),
            std::string::npos);
  EXPECT_NE(page.find("| `STRATA_LOG_LEVEL` | `warning` | `debug\\|info\\|warning\\|error` |  | all | "),
            std::string::npos);
}

}  // namespace
}  // namespace strata
