// Goal: which argument is the model and which the prompt, row by row.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/arguments.h"
#include "cli/model_choice.h"
#include "cli/models.h"

namespace strata::cli {
namespace {

using Args = std::vector<std::string>;

// What run makes of its arguments: "model=...;prompt=...", or the message.
std::string taken(const Args& args) {
  const Command& run = *find_command("run");
  Result<Arguments> arguments = parse_arguments(run, args);
  if (!arguments.ok()) return arguments.error().message;
  const Status status = run.take_words(arguments->words, arguments->settings);
  if (!status.ok()) return status.error().message;
  const Settings& s = arguments->settings;
  const auto shown = [&](Key key) { return s.is_set(key) ? "'" + s.text(key) + "'" : std::string("none"); };
  return "model=" + shown(Key::kModel) + ";prompt=" + shown(Key::kPrompt);
}

// A folder to stand in, with a file and a folder.
class WordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    test::write_file(dir_.file("model"), "x");
    test::write_file(dir_.file("m.gguf"), "x");
    std::filesystem::create_directory(dir_.file("folder"));
    std::filesystem::current_path(dir_.path());
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  test::TempDir dir_;
  std::filesystem::path before_;
};

TEST_F(WordsTest, ModelAndPrompt) {
  const struct {
    Args args;
    const char* result;
  } cases[] = {
      {{}, "model=none;prompt=none"},
      {{"Once upon a time"}, "model=none;prompt='Once upon a time'"},
      {{"Once"}, "model=none;prompt='Once'"},
      {{""}, "model=none;prompt=''"},
      {{"m.gguf.txt"}, "model=none;prompt='m.gguf.txt'"},
      {{"model"}, "model='model';prompt=none"},
      {{"folder"}, "model='folder';prompt=none"},
      {{"m.gguf"}, "model='m.gguf';prompt=none"},
      {{"./model"}, "model='./model';prompt=none"},
      {{"model", "Once"}, "model='model';prompt='Once'"},
      {{"model", "m.gguf"}, "model='model';prompt='m.gguf'"},
      {{"model", ""}, "model='model';prompt=''"},
      {{"model", "-p", "Once"}, "model='model';prompt='Once'"},
      {{"-p", "Once", "model"}, "model='model';prompt='Once'"},
      {{"--model", "m.gguf", "Once"}, "model='m.gguf';prompt='Once'"},
      {{"-p", "model"}, "model=none;prompt='model'"},
      {{"-p", "a/b"}, "model=none;prompt='a/b'"},
      {{"--", "-dash"}, "model=none;prompt='-dash'"},
  };
  for (const auto& c : cases) EXPECT_EQ(taken(c.args), c.result);
}

TEST_F(WordsTest, AMissingPathIsNeverAPrompt) {
  for (const char* path : {"none.gguf", "./none", "a/b", "/", "either / or"}) {
    if (std::filesystem::exists(path)) continue;
    EXPECT_EQ(taken({path}).find(std::string("no such file: ") + path + " ("), 0u) << taken({path});
  }
  EXPECT_NE(taken({"Once", "upon"}).find("of two arguments, the first is the model"), std::string::npos);
}

TEST_F(WordsTest, NothingIsGivenTwice) {
  EXPECT_EQ(taken({"-p", "a", "b"}), "the prompt is given twice: with its flag, and as 'b'");
  EXPECT_EQ(taken({"-p", "a", "model", "b"}), "the prompt is given twice: with its flag, and as 'b'");
  EXPECT_EQ(taken({"--model", "m.gguf", "model"}), "the model is given twice: with its flag, and as 'model'");
  EXPECT_NE(taken({"model", "a", "b"}).find("3 arguments"), std::string::npos);
}

TEST_F(WordsTest, NamesModel) {
  for (const char* word : {"model", "folder", "m.gguf", ".gguf", "none.gguf", "a/b", "/", "./model"}) {
    EXPECT_TRUE(names_model(word)) << word;
  }
  for (const char* word : {"", "Once", "gguf", "m.GGUF", "m.gguf ", "models"}) EXPECT_FALSE(names_model(word)) << word;
  EXPECT_FALSE(names_model(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace strata::cli
