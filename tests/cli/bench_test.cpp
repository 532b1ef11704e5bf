// Goal: strata bench refuses what it can't measure, and tells what it measured in the promised form. No speed is held
// to anything: machines differ.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/models.h"
#include "cli/program.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;
using Json = nlohmann::json;

Args bench(const Args& more) {
  Args args = {"bench", "--buffer-mib", "4"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Arguments of a quick benchmark of the tiny model.
Args quick(const Args& more) {
  Args args = bench({tiny_model(), "-p", "5", "-n", "4", "-t", "1", "-r", "2", "--kv-type", "f32"});
  for (size_t i = 0; i + 1 < more.size(); i += 2) {
    const auto same = std::find(args.begin(), args.end(), more[i]);
    if (same != args.end()) args.erase(same, same + 2);
  }
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

Json json_of(const Args& args) {
  const Outcome outcome = strata(args);
  EXPECT_TRUE(succeeded(outcome)) << ::testing::PrintToString(args);
  const Json json = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << outcome.out;
  return json;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Bench, RefusesWrongArguments) {
  const struct {
    Args args;
    const char* text;
  } cases[] = {
      {{"bench", "speed"}, "bench measures a model, the system, the kernels or a server (serve), and 'speed' is none"},
      {{"bench", "none.gguf"}, "none.gguf"},
      {{"bench", tiny_model(), "x"}, "2 arguments"},
      {{"bench", "system", "x"}, "unexpected argument 'x'"},
      {{"bench", "kernels", "x"}, "unexpected argument 'x'"},
      {{"bench", tiny_model(), "-p", "5x"}, "--n-prompt 5x: '5x' is not allowed"},
      {{"bench", tiny_model(), "-n", "1,,2"}, "--n-gen 1,,2: '' is not allowed"},
      {{"bench", tiny_model(), "-t", "0"}, "--n-threads 0: '0' is not allowed; give at most 16 whole numbers from 1"},
      {{"bench", tiny_model(), "-t", "1,1025"}, "'1025' is not allowed"},
      {{"bench", tiny_model(), "-r", "0"}, "'0' is not allowed"},
      {{"bench", tiny_model(), "-p", "0", "-n", "0"}, "-p 0 and -n 0 leave nothing to measure"},
      {{"bench", tiny_model(), "-p", "9", "-n", "1", "--ctx", "8"}, "a test of 9 tokens does not fit into --ctx 8"},
      {{"bench", tiny_model(), "--threads", "2"}, "unknown flag '--threads'"},
      {{"bench", tiny_model(), "--type", "Q4_K"}, "--type means nothing to bench model; it is for bench kernels"},
      {{"bench", tiny_model(), "--device", "cuda"}, "--device cuda"},
      {{"bench", "system", "-p", "1"}, "--n-prompt means nothing to bench system; it is for bench model"},
      {{"bench", "system", "--file", "none.bin"}, "none.bin"},
      {{"bench", "kernels", "--type", "Q9"}, "--type Q9: bench kernels knows F32, F16"},
      {{"bench", "kernels", "--type", "I32"}, "--type I32"},
      {{"bench", "kernels", "--shape", "5x5"}, "--shape 5x5: '5x5' is not allowed"},
      {{"bench", "kernels", "--tokens", "0"}, "--tokens 0: '0' is not allowed"},
      {{"bench", "kernels", "--file", "x"}, "--file means nothing to bench kernels; it is for bench system"},
  };
  for (const auto& c : cases) EXPECT_TRUE(refused(strata(c.args), 2, c.text)) << ::testing::PrintToString(c.args);
}

// What the model or the devices can't have is said before memory is measured, which takes seconds: here there is none
// to measure with, and where that is tried it is what is complained of.
TEST(Bench, RefusesBeforeItMeasures) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take all addresses";
#endif
  const auto bench = [](const Args& flags) {
    Args args = {"-c", "ulimit -v 2000000; exec \"$0\" \"$@\"", STRATA_PROGRAM, "bench",
                 golden_path("arch/deepseek2/model-bf16.gguf"), "-p", "4", "-n", "1", "-t", "1", "--buffer-mib",
                 "16384"};
    args.insert(args.end(), flags.begin(), flags.end());
    return call({.args = args, .program = "/bin/sh"});
  };
  EXPECT_TRUE(refused(bench({"--layer-split", "1,2"}), 2, "--layer-split 1,2 is for 2 devices"));
  EXPECT_TRUE(refused(bench({"--kv-type", "q8_0"}), 2, "--kv-type q8_0"));
  EXPECT_TRUE(refused(bench({"--ram-gib", "0.0001"}), 1, "do not fit into the"));
}

// Counted in bench_traffic_test.cpp: what a token reads beside its context, and the float32 context of a token.
constexpr double kTokenBytes = 295552;
constexpr double kContextBytes = 1536;

TEST(Bench, JsonOfAModel) {
  const Json json = json_of(quick({"--json"}));
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"cpu", "engines", "isa", "kv_type", "model",
                                                     "model_bytes", "repetitions", "tests", "version"}));
  EXPECT_EQ(json.at("model"), tiny_model());
  EXPECT_EQ(json.at("kv_type"), "f32");
  ASSERT_EQ(json.at("engines").size(), 1u);
  const Json& engine = json.at("engines")[0];
  EXPECT_EQ(engine.at("threads"), 1);
  EXPECT_GT(engine.at("load_ns"), 0);
  EXPECT_GT(engine.at("read_ceiling_bytes_per_second"), 0);
  EXPECT_EQ(engine.at("ceiling_buffer_bytes"), 4 << 20);
  EXPECT_NE(engine.at("description").get<std::string>().find("qwen3moe: 3 layers"), std::string::npos);

  const Json& tests = json.at("tests");
  ASSERT_EQ(tests.size(), 2u);
  for (const Json& test : tests) {
    EXPECT_EQ(keys_of(test),
              (std::vector<std::string>{"bytes_per_second", "bytes_per_token", "cache_hit_share",
                                        "cpu_expert_bytes_per_token", "drive_bytes_per_token", "durations_ns",
                                        "file_reads", "graph_nodes_per_token", "link_busy_share",
                                        "link_bytes_per_token", "most_tokens_per_second", "n_gen", "n_prompt",
                                        "share_of_read_ceiling", "test", "threads", "tokens_per_second"}));
    EXPECT_EQ(test.at("durations_ns").size(), 2u);
    const Json& speed = test.at("tokens_per_second");
    EXPECT_LE(speed.at("min"), speed.at("median"));
    EXPECT_LE(speed.at("median"), speed.at("max"));
    EXPECT_NEAR(test.at("bytes_per_second").get<double>(),
                test.at("bytes_per_token").get<double>() * speed.at("median").get<double>(), 1);
  }
  EXPECT_EQ(tests[0].at("test"), "pp5");
  EXPECT_EQ(tests[0].at("n_prompt"), 5);
  EXPECT_EQ(tests[0].at("n_gen"), 0);
  EXPECT_EQ(tests[1].at("test"), "tg4");
  EXPECT_EQ(tests[1].at("n_gen"), 4);
  // In the mean, a generated token comes after 1.5 others and reads the context of 2.5.
  EXPECT_EQ(tests[1].at("bytes_per_token").get<double>(), kTokenBytes + 2.5 * kContextBytes);
  // The prompt's tokens share the weights, but for experts that they don't all use.
  EXPECT_LT(tests[0].at("bytes_per_token").get<double>(), kTokenBytes);
  EXPECT_GT(tests[0].at("bytes_per_token").get<double>(), kTokenBytes / 5);
}

// A simulated second is no second of this machine, whose memory it must not be held against.
TEST(Bench, SimulatedTimesHaveNoCeiling) {
  const Json json = json_of(quick({"--device", "sim:8MiB,8MiB", "--layer-split", "1,2", "--json"}));
  EXPECT_EQ(json.at("engines")[0].at("simulated"), true);
  ASSERT_EQ(json.at("tests").size(), 2u);
  for (const Json& test : json.at("tests")) EXPECT_TRUE(test.at("share_of_read_ceiling").is_null()) << test.dump();
  EXPECT_EQ(json_of(quick({"--json"})).at("engines")[0].at("simulated"), false);
}

TEST(Bench, AnF16CacheIsHalfAsLarge) {
  const Json json = json_of(quick({"--kv-type", "auto", "-p", "0", "--json", "on"}));
  ASSERT_EQ(json.at("tests").size(), 1u) << "-p 0 leaves the prompts out";
  EXPECT_EQ(json.at("tests")[0].at("bytes_per_token").get<double>(), kTokenBytes + 2.5 * kContextBytes / 2);
}

TEST(Bench, OneTestForEachLengthAndNumberOfThreads) {
  const Json json = json_of(quick({"-p", "3,7", "-n", "0", "-t", "2,1", "-r", "1", "--json", "on"}));
  std::vector<std::string> tests;
  for (const Json& test : json.at("tests")) {
    tests.push_back(test.at("test").get<std::string>() + " " + std::to_string(test.at("threads").get<int>()));
  }
  EXPECT_EQ(tests, (std::vector<std::string>{"pp3 2", "pp7 2", "pp3 1", "pp7 1"}));
  EXPECT_EQ(json.at("engines").size(), 2u);
}

// The value of a counter of --stats.
int64_t counter(const std::string& text, const std::string& name) {
  const size_t at = ("\n" + text).find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + name.size() + 1);
}

TEST(Bench, ComputesEachTokenOfEveryRepetitionOnce) {
  const Outcome outcome = strata(quick({"--prefill", "2", "--stats", "on"}));
  EXPECT_EQ(outcome.exit_code, 0);
  constexpr int64_t kRuns = 3;  // two repetitions and one before them
  EXPECT_EQ(counter(outcome.err, "tokens_forward"), kRuns * (5 + 4)) << outcome.err;
  EXPECT_EQ(counter(outcome.err, "steps"), kRuns * (3 + 4)) << "a prompt of 5 is three chunks of 2";
  EXPECT_EQ(counter(outcome.err, "expert_rows"), kRuns * (5 + 4) * 3 * 2) << "3 layers, 2 experts";
}

TEST(Bench, TextHasARowForEachTest) {
  const Outcome outcome = strata(quick({"--experts", "mapped"}));
  EXPECT_TRUE(succeeded(outcome));
  for (const char* part : {"\n| test ", "\n| pp5 ", "\n| tg4 ", "experts mapped", "loaded in ", "GB/s from 4 MiB"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST(Bench, JsonOfTheSystem) {
  const TempDir dir;
  write_file(dir.file("x"), std::string(10000, 'x'));
  const Json json = json_of(bench({"system", "--json", "--file", dir.file("x")}));
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"available_ram_bytes", "cpu", "drive", "features", "huge_pages",
                                                     "kernels", "largest_cache_bytes", "logical_cpus", "memory",
                                                     "page_bytes", "physical_cores"}));
  EXPECT_GE(json.at("memory").size(), 1u);
  EXPECT_EQ(json.at("memory")[0].at("threads"), 1);
  EXPECT_EQ(json.at("page_bytes"), 4096);
  EXPECT_EQ(json.at("drive").at("read_bytes"), 10000);
  EXPECT_GT(json.at("available_ram_bytes"), 0);
}

TEST(Bench, TextOfTheSystem) {
  const Outcome outcome = strata(bench({"system"}));
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_NE(outcome.out.find("RAM available: "), std::string::npos);
  EXPECT_NE(outcome.out.find("\n| 1 | "), std::string::npos);
}

TEST(Bench, JsonOfTheKernels) {
  const Args args = bench({"kernels", "--type", "Q4_K", "--shape", "4x256", "--tokens", "1,3", "-r", "1"});
  Args json_args = args;
  json_args.insert(json_args.end(), {"--isa", "scalar", "--json"});
  const Json json = json_of(json_args);
  EXPECT_EQ(json.at("threads"), 1);
  std::vector<std::string> rows;
  for (const Json& row : json.at("kernels")) {
    EXPECT_EQ(keys_of(row), (std::vector<std::string>{"cols", "isa", "operations_per_second", "path", "rows", "tokens",
                                                      "type", "weight_bytes", "weight_bytes_per_second"}));
    EXPECT_EQ(row.at("isa"), "scalar");
    EXPECT_EQ(row.at("weight_bytes"), 4 * 144);
    rows.push_back(row.at("path").get<std::string>() + " " + std::to_string(row.at("tokens").get<int>()));
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"float 1", "q8 1", "float 3", "q8 3"}));

  const Outcome text = strata(args);
  EXPECT_TRUE(succeeded(text));
  EXPECT_NE(text.out.find("| Q4_K    | scalar     | 4x256 "), std::string::npos) << text.out;
}

TEST(Bench, FlagsOfTheEnvironmentAreForWhoKnowsThem) {
  const ProgramCall call_with_variables{.args = bench({"system"}), .environment = {{"STRATA_N_PROMPT", "7"}}};
  EXPECT_TRUE(succeeded(call(call_with_variables)));
}

}  // namespace
}  // namespace strata::test
