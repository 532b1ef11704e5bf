// Goal: strata profile as its users meet it: texts recorded, profiles shown and added up, caches measured.
#include <gmock/gmock.h>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/models.h"
#include "cli/program.h"
#include "experts/profile.h"
#include "experts/routing_file.h"

namespace strata::test {
namespace {

using testing::HasSubstr;

std::string some_text() {
  std::string text;
  for (int i = 0; i < 40; i++) text += "Once upon a time there was number " + std::to_string(i) + ". ";
  return text;
}

class Profile : public testing::Test {
 protected:
  void SetUp() override { write_file(text_, some_text()); }

  Outcome record(const std::vector<std::string>& flags, const std::string& model = tiny_model()) {
    std::vector<std::string> args = {"profile", "record", model, "--file", text_, "--ctx", "64"};
    args.insert(args.end(), flags.begin(), flags.end());
    return strata(args);
  }
  static experts::ExpertProfile load(const std::string& path) {
    return experts::ExpertProfile::load(real_file_system(), path).value();
  }

  TempDir dir_;
  const std::string text_ = dir_.file("text.txt");
  const std::string profile_ = dir_.file("a.profile");
  const std::string routings_ = dir_.file("a.routings");
};

TEST_F(Profile, RecordCountsTheExpertsOfEveryToken) {
  const Outcome recorded = record({"--out", profile_, "--routings", routings_});
  EXPECT_TRUE(succeeded(recorded));
  EXPECT_THAT(recorded.out, HasSubstr("tokens are recorded"));
  const experts::ExpertProfile profile = load(profile_);
  const auto reader = experts::RoutingReader::open(real_file_system(), routings_).value();
  EXPECT_EQ(reader->model(), profile.model());
  experts::RoutingBlock block;
  int64_t rows = 0;
  for (; reader->next(block).value(); rows += block.n_rows) EXPECT_LE(block.n_rows, 64);
  EXPECT_GT(rows, 200);
  EXPECT_EQ(profile.total(), static_cast<double>(rows * profile.model().n_layers * reader->n_used()));

  // A recording says the same as the profile of its text, and two of them twice as much.
  const std::string sum = dir_.file("sum.profile");
  EXPECT_TRUE(succeeded(strata({"profile", "merge", profile_, routings_, "--out", sum})));
  for (int32_t e = 0; e < profile.model().n_experts; e++) EXPECT_EQ(load(sum).uses({1, e}), 2 * profile.uses({1, e}));
}

TEST_F(Profile, OneOfTheFilesIsEnough) {
  EXPECT_TRUE(succeeded(record({"--routings", routings_})));
  EXPECT_TRUE(succeeded(record({"--out", profile_})));
  EXPECT_EQ(names_in(dir_), (std::set<std::string>{"a.profile", "a.routings", "text.txt"}));
}

TEST_F(Profile, ShowTellsWhatIsUsedMost) {
  ASSERT_TRUE(succeeded(record({"--out", profile_})));
  const Outcome shown = strata({"profile", "show", profile_});
  EXPECT_TRUE(succeeded(shown));
  for (const char* part : {"layers of", "uses that the most used experts take", "25 %", "layer 1", "most used"}) {
    EXPECT_THAT(shown.out, HasSubstr(part));
  }
}

TEST_F(Profile, ReplayMeasuresEveryPolicyAndSize) {
  ASSERT_TRUE(succeeded(record({"--out", profile_, "--routings", routings_})));
  const Outcome all = strata({"profile", "replay", routings_});
  EXPECT_TRUE(succeeded(all));
  for (const char* part : {"fixed", "adaptive", "lru", "5 %", "75 %"}) EXPECT_THAT(all.out, HasSubstr(part));
  const Outcome some = strata({"profile", "replay", routings_, "--slots", "0,8", "--expert-profile", profile_});
  EXPECT_TRUE(succeeded(some));
  EXPECT_THAT(some.out, testing::ContainsRegex("\n +0 +0 % +0.0 %"));
  EXPECT_THAT(some.out, testing::ContainsRegex("\n +8 "));
}

TEST_F(Profile, RunsStartFromAProfileAndSaveWhatTheyLearn) {
  ASSERT_TRUE(succeeded(record({"--out", profile_})));
  const double before = load(profile_).total();
  const Outcome run = strata({"run", tiny_model(), "-p", "one two three", "-n", "8", "--temp", "0", "--device",
                              "sim:64MiB", "--expert-cache", "4", "--expert-profile", profile_,
                              "--expert-profile-save", profile_});
  EXPECT_TRUE(succeeded(run));
  EXPECT_GT(load(profile_).total(), before);
  const Outcome plain = strata({"run", tiny_model(), "-p", "one two three", "-n", "8", "--temp", "0", "--no-adapt"});
  EXPECT_EQ(run.out, plain.out);
}

// Before a word is said: a chat of an hour is not to end in a profile that can't be written.
TEST_F(Profile, RunsRefusePlacesThatAProfileMustNotTake) {
  const std::string model = dir_.file("copy.gguf");
  std::filesystem::copy_file(tiny_model(), model);
  write_file(dir_.file("notes"), "not a profile\n");
  const struct {
    std::string path;
    int code;
    const char* text;
  } rows[] = {{model, 2, "would replace"},
              {dir_.file("notes"), 2, "no expert profile"},
              {dir_.file("none/x"), 1, "--expert-profile-save"},
              {dir_.file("."), 2, "--expert-profile-save"}};
  for (const auto& row : rows) {
    const Outcome run = strata({"run", model, "-p", "one", "-n", "2", "--expert-profile-save", row.path});
    EXPECT_TRUE(refused(run, row.code, row.text)) << row.path;
  }
  EXPECT_EQ(read_file(model), read_file(tiny_model()));
  EXPECT_TRUE(succeeded(strata({"run", model, "-p", "one", "-n", "2", "--expert-profile-save", dir_.file("new")})));
  EXPECT_GT(load(dir_.file("new")).total(), 0);
}

TEST_F(Profile, WrongCallsAreRefused) {
  ASSERT_TRUE(succeeded(record({"--out", profile_})));
  write_file(dir_.file("other"), "strata expert profile 1\nmodel Other\nlayers 2\nexperts 4\n0 0 1\n");
  const struct {
    std::vector<std::string> args;
    const char* text;
  } refusals[] = {
      {{}, "nothing was asked for"},
      {{"list"}, "'list' was asked for"},
      {{"show"}, "write strata profile show PROFILE"},
      {{"show", profile_, profile_}, "write strata profile show PROFILE"},
      {{"show", dir_.file("none")}, "none"},
      {{"show", text_}, "line 1"},
      {{"show", dir_.file("a,b")}, "a comma in a name"},
      {{"show", profile_, "--out", "x"}, "--out means nothing to profile show"},
      {{"show", profile_, "--threads", "1"}, "--threads means nothing to profile show"},
      {{"merge", profile_, profile_}, "write strata profile merge"},
      {{"merge", profile_, dir_.file("other"), "--out", dir_.file("x")}, "another model"},
      {{"replay", profile_}, "not a recording of routings"},
      {{"replay", routings_, "--slots", "x"}, "a.routings"},
      {{"record", tiny_model(), "--out", profile_}, "write strata profile record"},
      {{"record", tiny_model(), "--file", text_}, "--routings FILE beside or instead of --out"},
      {{"record", tiny_model(), "--file", text_, "--out", text_}, "would replace"},
      {{"record", tiny_model(), "--file", text_, "--out", "x", "--routings", "x"}, "would replace"},
      {{"record", tiny_model(), "--file", text_, "--out", tiny_model()}, "would replace"},
      {{"record", tiny_model(), "--file", text_, "--out", profile_, "--slots", "4"}, "--slots means nothing"},
      {{"record", tiny_model(), "--file", text_, "--out", "x", "--expert-profile", dir_.file("other")},
       "another model"},
  };
  for (const auto& r : refusals) {
    std::vector<std::string> args = {"profile"};
    args.insert(args.end(), r.args.begin(), r.args.end());
    EXPECT_TRUE(refused(strata(args), 2, r.text)) << testing::PrintToString(r.args);
  }
}

}  // namespace
}  // namespace strata::test
