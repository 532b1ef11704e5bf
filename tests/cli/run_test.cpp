// Goal: strata run continues texts as documented, for scripts (stdout is the continuation and nothing else) and people.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/ids.h"
#include "cli/models.h"
#include "cli/parse_ids.h"
#include "cli/program.h"
#include "text/utf8.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;

// Arguments of a greedy, exact run, and more.
Args greedy(const std::string& model, const Args& more) {
  Args args = {"run", model, "--temp", "0", "--raw", "--kv-type", "f32"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string output(const Args& args, const std::string& input = "") {
  const Outcome outcome = strata(args, input);
  EXPECT_TRUE(succeeded(outcome)) << ::testing::PrintToString(args);
  return outcome.out;
}

struct Reference {
  std::string prompt;
  std::string continuation;  // as far as the choice of every token is clear
  std::string n_tokens;
};

Reference demo_reference() {
  const nlohmann::json json = nlohmann::json::parse(read_file(golden_path("demo/reference.json")));
  const std::vector<int32_t> ids = json.at("greedy_continuation");
  const std::vector<double> margins = json.at("greedy_margin");
  size_t n = 0;
  while (n < 12 && margins[n] > 0.05) n++;
  EXPECT_EQ(n, 12u);
  const std::string text = output({"detokenize", demo_model()}, cli::ids_text(std::span(ids).first(n)));
  return {.prompt = json.at("text"), .continuation = text, .n_tokens = std::to_string(n)};
}

TEST(Run, GreedyContinuationIsTheReferences) {
  const Reference r = demo_reference();
  EXPECT_EQ(output(greedy(demo_model(), {"-p", r.prompt, "-n", r.n_tokens})), r.continuation);
}

TEST(Run, TakesModelAndPromptInEveryForm) {
  const Reference r = demo_reference();
  const Args flags = {"--temp", "0", "--kv-type", "f32", "-n", r.n_tokens};
  const auto with = [&](Args args) {
    args.insert(args.begin(), "run");
    args.insert(args.begin() + 1, flags.begin(), flags.end());
    return args;
  };
  EXPECT_EQ(output(with({demo_model(), r.prompt})), r.continuation);
  EXPECT_EQ(output(with({r.prompt})), r.continuation) << "without a model it is the demo's";
  EXPECT_EQ(output(with({"--prompt=" + r.prompt, "--model", demo_model()})), r.continuation);
  EXPECT_EQ(output(with({demo_model()}), r.prompt), r.continuation) << "from standard input";
  EXPECT_EQ(output(with({}), r.prompt), r.continuation);
  const ProgramCall environment{.args = with({r.prompt}), .environment = {{"STRATA_MODEL", tiny_model()}}};
  EXPECT_EQ(call(environment).out, output(with({tiny_model(), r.prompt})));
}

TEST(Run, EngineFlagsDoNotChangeAClearChoice) {
  const Reference r = demo_reference();
  for (const Args& flags : std::vector<Args>{{"--threads", "1"},
                                             {"--threads=3", "--cpus", "0"},
                                             {"--device", "cpu", "--act", "f32"},
                                             {"--experts", "mapped"},
                                             {"--experts", "arena", "--ram-gib", "2"},
                                             {"--deterministic", "--prefill", "3"},
                                             {"--deterministic", "on", "--prefill", "1"},
                                             {"--graph", "off"},
                                             {"--no-graph", "--isa", "scalar"},
                                             {"--ctx", "64"},
                                             {"--top-k", "1", "--top-p", "0.5", "--min-p", "0.9", "--seed", "3"}}) {
    Args args = greedy(demo_model(), {"-p", r.prompt, "-n", r.n_tokens});
    args.insert(args.end(), flags.begin(), flags.end());
    EXPECT_EQ(output(args), r.continuation) << ::testing::PrintToString(flags);
  }
}

TEST(Run, LimitsTheAnswer) {
  EXPECT_EQ(output(greedy(demo_model(), {"-p", "Once", "-n", "0"})), "");
  const std::string one = output(greedy(demo_model(), {"-p", "Once", "-n", "1"}));
  const std::string three = output(greedy(demo_model(), {"-p", "Once", "-n", "3"}));
  EXPECT_FALSE(one.empty());
  EXPECT_LT(one.size(), three.size());
  EXPECT_TRUE(three.starts_with(one));
}

TEST(Run, EndsAtTheEndOfTheText) {
  // The same weights, but the third token of the greedy continuation is the end of a text.
  const std::string whole = output(greedy(demo_model(), {"-p", "Once upon a time", "-n", "8"}));
  const std::string prompt_ids = output({"tokenize", demo_model()}, "Once upon a time");
  const std::string all_ids = output({"tokenize", demo_model()}, "Once upon a time" + whole);
  const std::vector<int32_t> ids = *parse_ids(all_ids, 1 << 20, "");
  const size_t n_prompt = parse_ids(prompt_ids, 1 << 20, "")->size();
  ASSERT_GT(ids.size(), n_prompt + 3);
  const int32_t end = ids[n_prompt + 2];
  const std::string before =
      output({"detokenize", demo_model()}, cli::ids_text(std::span(ids).subspan(n_prompt, 2)));

  const TempDir dir;
  const std::string model = dir.file("ends.gguf");
  write_file(model, with_u32(read_file(demo_model()), "tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end)));
  EXPECT_EQ(output(greedy(model, {"-p", "Once upon a time", "-n", "8"})), before);
  EXPECT_EQ(output(greedy(model, {"-p", "Once upon a time"})), before);
}

TEST(Run, EndsAfter512TokensByItself) {
  // A model without any token that ends a text.
  std::string file = with_text(read_file(tiny_model()), "<|endoftext|>", "<|endlesstxt>");
  file = with_text(with_text(file, "<|im_end|>", "<|im_mid|>"), ".eos_token_id", ".eoz_token_id");
  const TempDir dir;
  write_file(dir.file("endless.gguf"), file);
  const Outcome outcome = strata(greedy(dir.file("endless.gguf"), {"-p", "Once", "--stats"}));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("generated_tokens 512\n"), std::string::npos) << outcome.err;
}

TEST(Run, SaysWhenTheContextIsFull) {
  const std::string n_prompt = std::to_string(
      parse_ids(output({"tokenize", tiny_model()}, "Once upon"), 512, "")->size());
  const Outcome outcome = strata(greedy(tiny_model(), {"-p", "Once upon", "-n", "100", "--ctx", n_prompt, "--stats"}));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("generated_tokens 1\n"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("strata: the context of " + n_prompt + " tokens is full"), std::string::npos);
}

TEST(Run, RefusesAPromptLongerThanTheContextWithBothNumbers) {
  const Outcome outcome = strata(greedy(demo_model(), {"-p", "Once upon a time", "--ctx", "3"}));
  EXPECT_TRUE(refused(outcome, 2, "the prompt has 4 tokens, but the context has room for 3"));
}

TEST(Run, RefusesAnEmptyPrompt) {
  EXPECT_TRUE(refused(strata({"run", demo_model(), "-p", ""}), 2, "the prompt is empty"));
  EXPECT_TRUE(refused(strata({"run", demo_model()}, ""), 2, "the prompt is empty"));
  const ProgramCall terminal{.args = {"run", demo_model()}, .in = Stream::kTerminal};
  EXPECT_TRUE(refused(call(terminal), 2, "no prompt; write strata run"));
}

TEST(Run, AnEmptyPromptIsTheBeginningOfATextWhereTheModelHasOne) {
  const TempDir dir;
  const std::string model = dir.file("bos.gguf");
  write_file(model, with_bool(read_file(demo_model()), "tokenizer.ggml.add_bos_token", true));
  const Outcome empty = strata(greedy(model, {"-p", "", "-n", "2", "--stats"}));
  EXPECT_EQ(empty.exit_code, 0);
  EXPECT_NE(empty.err.find("prompt_tokens 1\n"), std::string::npos) << empty.err;
  const Outcome text = strata(greedy(model, {"-p", "Once upon a time", "-n", "2", "--stats"}));
  EXPECT_NE(text.err.find("prompt_tokens 5\n"), std::string::npos) << text.err;
}

TEST(Run, TheSeedDecides) {
  const auto tale = [](const std::string& seed) {
    return output({"run", tiny_model(), "-p", "Once", "-n", "24", "--temp", "2", "--seed", seed});
  };
  EXPECT_EQ(tale("1"), tale("1"));
  EXPECT_NE(tale("1"), tale("2"));
}

TEST(Run, ASeedOfItsOwnIsShownAndRepeatable) {
  const Args args = {"run", tiny_model(), "-p", "Once", "-n", "24", "--temp", "2", "--stats"};
  const Outcome first = strata(args);
  const size_t at = first.err.find("\nseed ");
  ASSERT_NE(at, std::string::npos) << first.err;
  Args again = args;
  again.insert(again.end(), {"--seed", first.err.substr(at + 6, first.err.find('\n', at + 6) - at - 6)});
  EXPECT_EQ(strata(again).out, first.out);
}

TEST(Run, StatsAreLinesOfNameAndValueOnStderr) {
  const Outcome outcome = strata(greedy(demo_model(), {"-p", "Once upon a time", "-n", "5", "--stats"}));
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* line : {"prompt_tokens 4\n", "generated_tokens 5\n", "prompt_tokens_per_second ",
                           "generated_tokens_per_second ", "steps 5\n", "tokens_forward 8\n"}) {
    EXPECT_NE(outcome.err.find(line), std::string::npos) << line << outcome.err;
  }
  EXPECT_EQ(outcome.out, output(greedy(demo_model(), {"-p", "Once upon a time", "-n", "5"})));
}

TEST(Run, PrintsWholeCharacters) {
  // A model of random weights writes random bytes.
  bool beyond_ascii = false;
  for (int n = 1; n <= 12; n++) {
    const std::string written =
        output({"run", golden_path("models/moe-a-iq3_s.gguf"), "-p", "a", "-n", std::to_string(n), "--seed", "7",
                "--temp", "3", "--top-k", "0", "--top-p", "1", "--min-p", "0"});
    EXPECT_TRUE(text::is_valid_utf8(written)) << n;
    for (const char c : written) beyond_ascii = beyond_ascii || static_cast<unsigned char>(c) >= 0x80;
  }
  EXPECT_TRUE(beyond_ascii) << "nothing was tried";
}

TEST(Run, OnATerminalThePromptComesFirst) {
  const Args args = greedy(demo_model(), {"-p", "Once upon a time", "-n", "5"});
  const Outcome terminal = call({.args = args, .out = Stream::kTerminal});
  EXPECT_TRUE(succeeded(terminal));
  EXPECT_EQ(terminal.out, "Once upon a time" + output(args) + "\n");
}

TEST(Run, InterruptEndsTheAnswer) {
  const Args args = greedy(demo_model(), {"-p", "Once upon a time", "-n", "4000"});
  const Outcome outcome = call({.args = args, .interrupt_after = 20});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err.find("strata: interrupted after "), 0u) << outcome.err;
  EXPECT_GE(outcome.out.size(), 20u);
}

TEST(Run, AReaderThatGoesAwayEndsItQuietly) {
  const Args args = greedy(demo_model(), {"-p", "Once upon a time", "-n", "4000"});
  const Outcome outcome = call({.args = args, .close_after = 20});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "");
}

TEST(Run, AFullDiskIsAFailure) {
  const Outcome outcome = call({.args = greedy(demo_model(), {"-p", "Once", "-n", "2"}), .out_path = "/dev/full"});
  EXPECT_TRUE(refused(outcome, 1, "cannot write to standard output"));
}

TEST(Run, ClosedInputIsNotAModel) {
  const Outcome outcome = call({.args = {"run", demo_model()}, .in = Stream::kClosed});
  EXPECT_TRUE(refused(outcome, 1, "cannot read standard input"));
}

// F04
TEST(Run, TheLocaleChangesNoByte) {
  const std::string text = "\u4F60\u597D\uFF0C\u4E16\u754C \u3053\u3093\u306B\u3061\u306F";
  std::vector<std::string> outputs;
  for (const char* locale : {"C", "C.UTF-8", "POSIX", "nonsense"}) {
    const auto output = [&](const Args& args, const std::string& input) {
      const Outcome outcome = call({.args = args, .input = input, .environment = {{"LC_ALL", locale}}});
      EXPECT_TRUE(succeeded(outcome)) << locale;
      return outcome.out;
    };
    const std::string ids = output({"tokenize", tiny_model()}, text);
    EXPECT_EQ(output({"detokenize", tiny_model()}, ids), text) << locale;
    outputs.push_back(ids + output({"run", demo_model(), "--temp", "0", "--chat", "-n", "8"}, text) +
                      output(greedy(tiny_model(), {"-n", "8"}), text));
  }
  for (const std::string& each : outputs) EXPECT_EQ(each, outputs[0]);
}

TEST(Run, TheChatTemplateCanBeAnother) {
  const TempDir dir;
  write_file(dir.file("plain.jinja"), "{{ messages[0].content }}");
  write_file(dir.file("broken.jinja"), "{% nosuch %}");
  const auto args = [](const std::string& given) {
    return Args{"run", demo_model(), "--temp", "0", "--kv-type", "f32", "--chat", "-p", "Once upon a time",
                "-n",  "8",          "--chat-template", given};
  };
  const Outcome plain = strata(args(dir.file("plain.jinja")));
  EXPECT_TRUE(succeeded(plain));
  EXPECT_EQ(plain.out, strata(greedy(demo_model(), {"-p", "Once upon a time", "-n", "8"})).out);
  EXPECT_TRUE(succeeded(strata(args("chatml"))));
  EXPECT_TRUE(refused(strata(args("nosuch")), 2,
                      "--chat-template nosuch: there is neither a file nor a built-in template of this name"));
  EXPECT_TRUE(refused(strata(args(dir.file("broken.jinja"))), 2,
                      "broken.jinja: chat template, line 1, column 1: unknown statement 'nosuch'"));
  EXPECT_TRUE(refused(strata(args(dir.path())), 2, "--chat-template " + dir.path() + ": cannot read"));
  EXPECT_TRUE(refused(strata(args("/dev/zero")), 2, "--chat-template /dev/zero: /dev/zero is longer than the 4 MiB"));
}

TEST(Run, WarnsOfAContextThatTheModelHasNotSeen) {
  const auto with_context = [](const char* context, const char* scale = "auto") {
    return strata(greedy(tiny_model(), {"-p", "Once", "-n", "1", "--ctx", context, "--rope-scale", scale}));
  };
  EXPECT_TRUE(succeeded(with_context("2048")));
  EXPECT_EQ(with_context("4096", "2").err, "");
  EXPECT_NE(with_context("4097", "2").err.find("trained with, times --rope-scale; beyond them"), std::string::npos);
  const Outcome longer = with_context("2049");
  EXPECT_EQ(longer.exit_code, 0);
  EXPECT_EQ(std::count(longer.err.begin(), longer.err.end(), '\n'), 1) << longer.err;
  const char* const warning = "the context of 2049 tokens (--ctx) is longer than the 2048 that the model was trained";
  EXPECT_NE(longer.err.find(warning), std::string::npos) << longer.err;
}

TEST(Run, OneTokenIsNotTokens) {
  const Outcome outcome = strata({"run", demo_model(), "--chat", "-p", "Hello!", "--ctx", "1"});
  EXPECT_TRUE(refused(outcome, 2, "but the context has room for 1;"));
  const Outcome one = strata({"eval", "logprobs", tiny_model(), "--ids-file", "-", "--ctx", "1", "--out", "/dev/full"},
                             "1 2");
  EXPECT_TRUE(refused(one, 2, "the input is 2 ids, but --ctx allows 1 token"));
}

TEST(Run, FindsTheDemoBesideTheInstalledProgram) {
  const TempDir dir;
  std::filesystem::create_directories(dir.file("bin"));
  std::filesystem::create_directories(dir.file("share/strata/models"));
  std::filesystem::copy_file(STRATA_PROGRAM, dir.file("bin/strata"));
  const std::string model = dir.file("share/strata/models/tales-moe-q4_k_m.gguf");
  std::filesystem::copy_file(tiny_model(), model);
  const Outcome outcome = call({.args = {"inspect"}, .program = dir.file("bin/strata")});
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_NE(outcome.out.find(model), std::string::npos) << outcome.out;
}

TEST(Run, ReadsLongPromptsFromStandardInput) {
  std::string text;
  for (int i = 0; i < 40'000; i++) text += "word ";
  EXPECT_TRUE(refused(strata({"run", tiny_model()}, text), 2, "but the context has room for 2048"));
}

}  // namespace
}  // namespace strata::test
