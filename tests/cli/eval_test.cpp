// Goal: the file that strata eval logprobs writes has the documented form and a peer's numbers, whatever the engine's
// settings.
#include <cmath>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/ids.h"
#include "cli/models.h"
#include "cli/program.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;

class EvalTest : public ::testing::Test {
 protected:
  // Log-probabilities of ids given in a file.
  std::vector<float> eval(const std::string& model, const std::vector<int32_t>& ids, const Args& more = {}) {
    write_file(dir_.file("ids.txt"), cli::ids_text(ids));
    const std::string out = dir_.file("out.f32");
    Args args = {"eval", "logprobs", model, "--ids-file", dir_.file("ids.txt"), "--out", out};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = strata(args);
    EXPECT_TRUE(succeeded(outcome)) << ::testing::PrintToString(more);
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(out + ".tmp"));
    return read_f32(out);
  }

  TempDir dir_;
};

float max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float max = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const float difference = std::abs(a[i] - b[i]);
    max = difference <= max ? max : difference;  // a NaN is taken
  }
  return max;
}

struct Reference {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

Reference demo_reference() {
  const nlohmann::json json = nlohmann::json::parse(read_file(golden_path("demo/reference.json")));
  return {json.at("ids"), read_f32(golden_path("demo/reference.logprobs.f32"))};
}

// The first sequence of the tiny model: 512 log-probabilities an id.
Reference tiny_reference() {
  const nlohmann::json json = nlohmann::json::parse(read_file(golden_path("arch/qwen3moe/reference.json")));
  Reference reference{json.at("sequences").at(0).at("ids"), read_f32(golden_path("arch/qwen3moe/logprobs.f32"))};
  reference.logprobs.resize(reference.ids.size() * 512);
  return reference;
}

// The limits that models/README.md and tests/golden/arch/README.md set for float32 throughout.
constexpr float kDemoLimit = 1e-3f;
constexpr float kTinyLimit = 1e-4f;

TEST_F(EvalTest, HasThePeersNumbersByDefault) {
  const Reference demo = demo_reference();
  EXPECT_LE(max_difference(eval(demo_model(), demo.ids), demo.logprobs), kDemoLimit);
  const Reference tiny = tiny_reference();
  EXPECT_LE(max_difference(eval(tiny_model(), tiny.ids), tiny.logprobs), kTinyLimit);
}

TEST_F(EvalTest, EverySettingGivesThem) {
  const Reference tiny = tiny_reference();
  for (const Args& flags : std::vector<Args>{{"--chunk", "1"},
                                             {"--chunk=7", "--threads", "1"},
                                             {"--act", "f32", "--kv-type", "f32"},
                                             {"--graph", "off"},
                                             {"--no-graph", "--isa", "scalar"},
                                             {"--experts", "mapped", "--device", "cpu"},
                                             {"--experts", "arena", "--ram-gib", "1"},
                                             {"--cpus", "0"},
                                             {"--ctx", std::to_string(tiny.ids.size())},
                                             {"--ctx", "2048"}}) {
    EXPECT_LE(max_difference(eval(tiny_model(), tiny.ids, flags), tiny.logprobs), kTinyLimit)
        << ::testing::PrintToString(flags);
  }
}

TEST_F(EvalTest, DeterministicIsTheSameBitsForAnyCut) {
  const Reference tiny = tiny_reference();
  const std::vector<float> whole = eval(tiny_model(), tiny.ids, {"--deterministic"});
  EXPECT_EQ(max_difference(whole, tiny.logprobs) <= kTinyLimit, true);
  for (const char* chunk : {"1", "3", "8"}) {
    EXPECT_EQ(eval(tiny_model(), tiny.ids, {"--deterministic=on", "--chunk", chunk, "--threads", "2"}), whole) << chunk;
  }
}

TEST_F(EvalTest, ACoarserCacheIsCoarser) {
  const Reference tiny = tiny_reference();
  const float difference = max_difference(eval(tiny_model(), tiny.ids, {"--kv-type", "f16"}), tiny.logprobs);
  EXPECT_GT(difference, 0.0f);
  EXPECT_LE(difference, 2e-2f);  // the worst row that tests/golden/arch/README.md expects
}

TEST_F(EvalTest, RowsAreDistributions) {
  const std::vector<float> rows = eval(tiny_model(), {5, 5, 0, 511});
  ASSERT_EQ(rows.size(), 4u * 512);
  for (size_t row = 0; row < 4; row++) {
    double sum = 0;
    for (size_t i = 0; i < 512; i++) sum += std::exp(static_cast<double>(rows[row * 512 + i]));
    // Each of 512 values was rounded to float32, at most 2^-24 of |log p| < 32 off.
    EXPECT_NEAR(sum, 1, 32.0 / (1 << 24));
  }
}

TEST_F(EvalTest, NothingIsPutInFrontOfTheIds) {
  const std::string model = dir_.file("bos.gguf");
  write_file(model, with_bool(read_file(demo_model()), "tokenizer.ggml.add_bos_token", true));
  const Reference demo = demo_reference();
  EXPECT_LE(max_difference(eval(model, demo.ids), demo.logprobs), kDemoLimit);
}

TEST_F(EvalTest, ReadsIdsFromStandardInput) {
  const Reference tiny = tiny_reference();
  const std::string out = dir_.file("out.f32");
  std::string lines = "\n";
  for (const int32_t id : tiny.ids) lines += std::to_string(id) + "\r\n\t";
  EXPECT_TRUE(succeeded(strata({"eval", "logprobs", tiny_model(), "--ids-file=-", "--out=" + out}, lines)));
  EXPECT_LE(max_difference(read_f32(out), tiny.logprobs), kTinyLimit);
}

TEST_F(EvalTest, MoreIdsThanTheModelsContextMakeTheContextLarger) {
  const std::vector<int32_t> ids(2049, 3);
  EXPECT_EQ(eval(tiny_model(), ids).size(), ids.size() * 512);
}

TEST_F(EvalTest, ReplacesAResultButOnlyByAWholeOne) {
  const std::string out = dir_.file("out.f32");
  write_file(out, "old");
  Args args = {"eval", "logprobs", tiny_model(), "--ids-file", "-", "--out", out};
  EXPECT_TRUE(refused(strata(args, "1 2 512"), 2, "512"));
  EXPECT_EQ(read_file(out), "old");
  EXPECT_TRUE(succeeded(strata(args, "1 2 3")));
  EXPECT_EQ(read_file(out).size(), 3u * 512 * 4);
}

TEST_F(EvalTest, PrintsStatsOnStderr) {
  const Outcome outcome = strata(
      {"eval", "logprobs", tiny_model(), "--ids-file", "-", "--out", dir_.file("out.f32"), "--stats"}, "1 2 3");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  for (const char* line : {"prompt_tokens 3\n", "prompt_tokens_per_second ", "tokens_forward 3\n", "steps 1\n"}) {
    EXPECT_NE(outcome.err.find(line), std::string::npos) << line << outcome.err;
  }
}

}  // namespace
}  // namespace strata::test
