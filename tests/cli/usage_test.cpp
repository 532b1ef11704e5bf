// Goal: whatever is wrong with a command line or its input is one line on stderr, nothing on stdout, and the right exit
// code: 2 for what the user has to change, 1 for a failure.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/models.h"
#include "cli/program.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;

struct Refusal {
  Args args;
  std::string text;
  int exit_code = 2;
  std::string input = {};
};

void expect_refusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& r : refusals) {
    EXPECT_TRUE(refused(strata(r.args, r.input), r.exit_code, r.text)) << ::testing::PrintToString(r.args);
  }
}

TEST(Usage, UnknownWords) {
  expect_refusals({
      {{"chat"}, "unknown command 'chat'; the commands are run, serve, inspect, eval, tokenize, "},
      {{""}, "unknown command ''"},
      {{"two\nlines\x1b"}, "unknown command 'two?lines?'"},
      {{"--foo"}, "unknown flag '--foo'"},
      {{"pull", "x"}, "unknown command 'pull'"},
      {{"run", "--hf-repo", "a/b"}, "unknown flag '--hf-repo'"},
      {{"run", "--draft=x"}, "unknown flag '--draft'"},
      {{"run", "--session", "x"}, "unknown flag '--session'"},
      {{"run", "--lora", "x"}, "unknown flag '--lora'"},
      {{"settings", "x"}, "unexpected argument 'x'"},
      {{"settings", "--temp", "1"}, "unknown flag '--temp'"},
  });
}

TEST(Usage, WrongFlags) {
  expect_refusals({
      {{"run", "x", "--temp", "hot"}, "--temp: 'hot' is not allowed"},
      {{"run", "x", "--temp", "1", "--temp", "2"}, "--temp is given twice"},
      {{"run", "x", "--ctx", "0"}, "--ctx: '0' is not allowed"},
      {{"run", "x", "--threads", "1025"}, "--threads: '1025' is not allowed"},
      {{"run", "x", "--act", "q4"}, "--act: 'q4' is not allowed"},
      {{"run", "x", "--device", "cuda"}, "--device cuda"},
      {{"run", "x", "--cpus", "4095"}, "--cpus: this process may not use core 4095; it may use "},
      {{"run", "x", "--cpus", "3-1"}, "--cpus: '3-1' in the list of cores"},
      {{"run", "x", "--log-level", "loud"}, "--log-level: 'loud' is not allowed"},
      {{"inspect", "--temp", "1"}, "unknown flag '--temp'"},
      {{"run", "x", "--ram-gib", "0.0001"}, "--ram-gib", 1},
  });
  const ProgramCall from_environment{.args = {"run", "x"}, .environment = {{"STRATA_TEMP", "hot"}}};
  EXPECT_TRUE(refused(call(from_environment), 2, "STRATA_TEMP: 'hot' is not allowed"));
}

TEST(Usage, AFlagOutweighsTheEnvironment) {
  const ProgramCall wrong_but_unused{.args = {"run", "x", "-n", "0", "--temp", "0"},
                                     .environment = {{"STRATA_TEMP", "hot"}, {"STRATA_IDS_FILE", "x"}}};
  EXPECT_TRUE(succeeded(call(wrong_but_unused)));
}

TEST(Usage, WrongModels) {
  const TempDir dir;
  write_file(dir.file("short.gguf"), read_file(tiny_model()).substr(0, 5000));
  write_file(dir.file("empty.gguf"), "");
  write_file(dir.file("text.gguf"), "this is no model, just a text that is a bit longer\n");
  std::filesystem::create_directory(dir.file("folder"));
  for (const char* command : {"inspect", "tokenize", "detokenize", "run"}) {
    expect_refusals({
        {{command, dir.file("none.gguf")}, "none.gguf"},
        {{command, dir.file("folder")}, "folder"},
        {{command, dir.file("short.gguf")}, "short.gguf"},
        {{command, dir.file("empty.gguf")}, "empty.gguf"},
        {{command, dir.file("text.gguf")}, "text.gguf"},
        {{command, "--model", dir.file("none.gguf")}, "none.gguf"},
    });
  }
  for (const char* command : {"inspect", "tokenize", "detokenize"}) {
    EXPECT_TRUE(refused(strata({command, "a", "b"}), 2, "2 arguments")) << command;
    const ProgramCall from_environment{.args = {command}, .environment = {{"STRATA_MODEL", dir.file("none.gguf")}}};
    EXPECT_TRUE(refused(call(from_environment), 2, "none.gguf"));
  }
}

TEST(Usage, WrongCallsOfEval) {
  const TempDir dir;
  const std::string out = dir.file("out.f32");
  const auto ids_file = [&](const char* name, const char* text) {
    write_file(dir.file(name), text);
    return dir.file(name);
  };
  const auto eval = [&](const std::string& ids, const std::string& to) {
    return Args{"eval", "logprobs", tiny_model(), "--ids-file", ids, "--out", to};
  };
  const std::string good = ids_file("good", "1 2 3");
  const std::string model = dir.file("m.gguf");
  write_file(model, read_file(tiny_model()));
  Args small_context = eval(good, out);
  small_context.insert(small_context.end(), {"--ctx", "2"});
  expect_refusals({
      {{"eval"}, "eval logprobs MODEL"},
      {{"eval", "speed", tiny_model()}, "'speed'"},
      {{"eval", "perplexity", tiny_model()}, "eval perplexity needs --file FILE"},
      {{"eval", "kl", tiny_model(), "--ids-file", good}, "eval kl needs --reference FILE"},
      {{"eval", "kl", "--ids-file", good, "--reference", good}, "eval kl needs a model"},
      {{"eval", "logprobs"}, "needs a model"},
      {{"eval", "logprobs", tiny_model(), "x"}, "2 arguments"},
      {{"eval", "logprobs", tiny_model(), "--out", out}, "--ids-file"},
      {{"eval", "logprobs", tiny_model(), "--ids-file", good}, "--out"},
      {eval(dir.file("none"), out), "none"},
      {eval(dir.path(), out), dir.path()},
      {eval(ids_file("empty", ""), out), "no token ids"},
      {eval(ids_file("blank", " \n "), out), "no token ids"},
      {eval("-", out), "standard input: there are no token ids"},
      {eval("-", out), "standard input: entry 1, 'x', is not a token id", 2, "1 x"},
      {eval(ids_file("large", "1 512"), out), "entry 1, '512', is not a token id; the model's are 0 to 511"},
      {eval(ids_file("minus", "-1"), out), "entry 0, '-1'"},
      {eval(ids_file("huge", "99999999999999999999"), out), "entry 0"},
      {eval(good, dir.path()), "exists and is not a file"},
      {eval(good, "/dev/full"), "cannot write /dev/full: No space left", 1},
      {eval(good, good), "would replace " + good + ", which is read"},
      {{"eval", "logprobs", model, "--ids-file", good, "--out", model}, "would replace " + model + ", which is read"},
      {eval(good, dir.file("none/out")), "none/out", 1},
      {small_context, "the input is 3 ids, but --ctx allows 2 tokens"},
  });
  EXPECT_EQ(names_in(dir), (std::set<std::string>{"blank", "empty", "good", "huge", "large", "m.gguf", "minus"}));
  EXPECT_EQ(read_file(dir.file("m.gguf")), read_file(tiny_model()));
}

TEST(Usage, TheEvaluationMayBeAFlagOrInTheEnvironment) {
  const TempDir dir;
  write_file(dir.file("ids"), "1 2 3");
  write_file(dir.file("text"), std::string(4000, 'x'));
  const std::string out = dir.file("out");
  const Args logprobs = {"--ids-file", dir.file("ids"), "--out", out};
  const auto with = [](Args args, const Args& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  EXPECT_TRUE(succeeded(strata(with({"eval", "--evaluation", "logprobs", tiny_model()}, logprobs))));
  EXPECT_TRUE(succeeded(strata(with({"eval", tiny_model(), "--evaluation=logprobs"}, logprobs))));
  EXPECT_TRUE(succeeded(strata(with({"eval", "--evaluation", "logprobs", "--model", tiny_model()}, logprobs))));
  EXPECT_TRUE(succeeded(call({.args = with({"eval", tiny_model()}, logprobs),
                              .environment = {{"STRATA_EVALUATION", "logprobs"}}})));
  // A word outweighs the environment, and excludes the flag.
  EXPECT_TRUE(succeeded(call({.args = with({"eval", "logprobs", tiny_model()}, logprobs),
                              .environment = {{"STRATA_EVALUATION", "perplexity"}}})));
  EXPECT_TRUE(refused(call({.args = {"eval", tiny_model()}, .environment = {{"STRATA_EVALUATION", "perplexity"}}}), 2,
                      "eval perplexity needs --file FILE"));
  EXPECT_TRUE(refused(call({.args = {"eval", tiny_model()}, .environment = {{"STRATA_EVALUATION", "speed"}}}), 2,
                      "STRATA_EVALUATION: 'speed' is not allowed"));
  expect_refusals({
      {with({"eval", "logprobs", tiny_model(), "--evaluation", "logprobs"}, logprobs), "the evaluation is given twice"},
      {{"eval", "--evaluation", "kl"}, "eval kl needs a model"},
      {{"eval", "--evaluation", "kl", tiny_model(), "x"}, "2 arguments"},
  });
}

TEST(Usage, NoCommandWritesToAClosedStandardOutput) {
  for (const Args& args : {Args{}, Args{"--help"}, Args{"--version"}, Args{"settings"}, Args{"inspect", tiny_model()},
                           Args{"run", tiny_model(), "Once"}, Args{"tokenize", tiny_model()},
                           Args{"detokenize", tiny_model()}, Args{"template", "--messages", "-"},
                           Args{"eval", "logprobs", tiny_model()}, Args{"quantize"}, Args{"nonsense"}}) {
    const Outcome outcome = call({.args = args, .input = "1", .out = Stream::kClosed});
    EXPECT_TRUE(refused(outcome, 1, "standard output is closed")) << ::testing::PrintToString(args);
  }
}

// Inputs without an end are refused when they have shown what they are.
TEST(Usage, InputsWithoutAnEnd) {
  const Args by_path = {"eval", "logprobs", tiny_model(), "--out", "/dev/null", "--ids-file", "/dev/zero"};
  EXPECT_TRUE(refused(strata(by_path), 2, "/dev/zero: entry 0, '????"));
  EXPECT_TRUE(refused(call({.args = {"detokenize", tiny_model()}, .input = "1 2 " + std::string(10 << 20, '7')}), 2,
                      "standard input: entry 2, '7777"));
  EXPECT_TRUE(refused(strata({"template", "--messages", "/dev/zero", "--chat-template", "chatml"}), 2,
                      "/dev/zero is longer than the 64 MiB that are taken"));
}

TEST(Usage, WrongIds) {
  expect_refusals({
      {{"detokenize", tiny_model()}, "entry 0, '512', is not a token id", 2, "512"},
      {{"detokenize", tiny_model()}, "entry 2, 'x', is not a token id", 2, "1 2 x"},
  });
}

}  // namespace
}  // namespace strata::test
