// Goal: the file that strata eval logprobs writes has the documented form and a peer's numbers, whatever the engine's
// settings; perplexity and KL are what their definitions make of such rows.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <sys/stat.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/ids.h"
#include "cli/models.h"
#include "cli/parse_ids.h"
#include "cli/program.h"
#include "text/tokenizer.h"

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
    EXPECT_FALSE(names_in(dir_).begin()->starts_with('.')) << "a file that is not complete";
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

// The ids come from a pipe that nobody writes to, so that the program waits with its result begun.
TEST_F(EvalTest, ASignalLeavesNoFileBehind) {
  ASSERT_EQ(::mkfifo(dir_.file("ids").c_str(), 0600), 0);
  const std::string out = dir_.file("out.f32");
  write_file(out, "old");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto has_begun = [this] { return names_in(dir_).size() > 2; };
    const Outcome outcome =
        call({.args = {"eval", "logprobs", tiny_model(), "--ids-file", dir_.file("ids"), "--out", out},
              .signal = signal, .signal_when = has_begun});
    EXPECT_EQ(outcome.exit_code, 128 + signal);
    EXPECT_EQ(names_in(dir_), (std::set<std::string>{"ids", "out.f32"}));
    EXPECT_EQ(read_file(out), "old");
  }
}

TEST_F(EvalTest, StandardOutputTakesTheResult) {
  const std::vector<float> wanted = eval(tiny_model(), {1, 2, 3});
  const Outcome outcome =
      strata({"eval", "logprobs", tiny_model(), "--ids-file", dir_.file("ids.txt"), "--out", "/dev/stdout"});
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_EQ(outcome.out, read_file(dir_.file("out.f32")));
  EXPECT_EQ(wanted.size(), 3u * 512u);
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
  for (const Args& flags : std::vector<Args>{{"--prefill", "1"},
                                             {"--prefill=7", "--threads", "1"},
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
    const Args flags = {"--deterministic=on", "--prefill", chunk, "--threads", "2"};
    EXPECT_EQ(eval(tiny_model(), tiny.ids, flags), whole) << chunk;
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

// The last line of perplexity: the value, its error, and how many tokens were scored.
struct Perplexity {
  double value = 0, error = 0;
  int n = 0;
};
Perplexity parse_perplexity(const Outcome& outcome) {
  EXPECT_TRUE(succeeded(outcome));
  Perplexity p;
  EXPECT_EQ(std::sscanf(outcome.out.c_str(), "perplexity: %lf +- %lf (%d tokens)", &p.value, &p.error, &p.n), 3)
      << outcome.out;
  return p;
}

// The same from the log-probabilities of every window, by the definition.
TEST_F(EvalTest, PerplexityIsThatOfTheSecondHalvesOfTheWindows) {
  const std::string text = read_file(STRATA_MODELS_DIR "/README.md").substr(0, 900);
  const std::string file = dir_.file("text");
  write_file(file, text);
  for (const bool with_bos : {false, true}) {
    SCOPED_TRACE(with_bos);
    const std::string model = dir_.file("model.gguf");
    write_file(model, with_bool(read_file(demo_model()), "tokenizer.ggml.add_bos_token", with_bos));
    constexpr size_t kVocab = 8192;
    const std::string id_text = strata({"tokenize", model, "--no-special"}, text).out;
    const std::vector<int32_t> ids = *parse_ids(id_text, kVocab, "");
    std::vector<int32_t> front;
    if (with_bos) front.push_back(text::Tokenizer::load(**gguf::Model::open(model, real_file_system())).value()->bos());
    const size_t length = 50, step = length - front.size();
    ASSERT_GE(ids.size(), 3 * step);
    std::vector<double> nats;
    for (size_t first = 0; first + step <= ids.size(); first += step) {
      std::vector<int32_t> window = front;
      window.insert(window.end(), ids.begin() + static_cast<std::ptrdiff_t>(first),
                    ids.begin() + static_cast<std::ptrdiff_t>(first + step));
      const std::vector<float> rows = eval(model, window);
      for (size_t i = length / 2; i < length; i++) {
        nats.push_back(-rows[(i - 1) * kVocab + static_cast<size_t>(window[i])]);
      }
    }
    double mean = 0, variance = 0;
    const auto n = static_cast<double>(nats.size());
    for (const double x : nats) mean += x / n;
    for (const double x : nats) variance += (x - mean) * (x - mean) / (n - 1);
    const Perplexity p = parse_perplexity(strata({"eval", "perplexity", model, "--file", file, "--ctx", "50"}));
    EXPECT_EQ(p.n, static_cast<int>(nats.size()));
    // Both are printed with four digits after the point; the sums may differ by rounding.
    EXPECT_NEAR(p.value, std::exp(mean), 2e-4 + 1e-6 * std::exp(mean));
    EXPECT_NEAR(p.error, std::exp(mean) * std::sqrt(variance / n), 2e-4 + 1e-6 * std::exp(mean));
  }
}

TEST_F(EvalTest, PerplexityOfATaleIsThatOfATrainedModel) {
  const nlohmann::json json = nlohmann::json::parse(read_file(golden_path("demo/reference.json")));
  const Outcome outcome = strata({"eval", "perplexity", demo_model(), "--file", "-", "--ctx", "16"},
                                 json.at("text").get<std::string>());
  const Perplexity p = parse_perplexity(outcome);
  EXPECT_GT(p.value, 1);
  EXPECT_LT(p.value, 200) << "of 8192 tokens; a model that knows nothing is surprised by all of them";
}

TEST_F(EvalTest, PerplexityRefusesTextsShorterThanAWindow) {
  const Outcome outcome = strata({"eval", "perplexity", tiny_model(), "--file", "-"}, "Too short.");
  EXPECT_TRUE(refused(outcome, 2, "but a window takes 512"));
  EXPECT_TRUE(refused(strata({"eval", "perplexity", tiny_model(), "--file", dir_.file("none")}), 2, "none"));
  EXPECT_TRUE(refused(strata({"eval", "perplexity", tiny_model(), "--file", "-", "--ctx", "3"}, "x"), 2, "--ctx 3"));
}

struct Kl {
  double mean = -1, max = -1, same = -1;
  int n = 0;
};
Kl parse_kl(const Outcome& outcome) {
  EXPECT_TRUE(succeeded(outcome));
  Kl kl;
  EXPECT_EQ(std::sscanf(outcome.out.c_str(), "mean KL: %lf nats\nmax KL: %lf nats\nsame top token: %lf %% (%d tokens)",
                        &kl.mean, &kl.max, &kl.same, &kl.n), 4) << outcome.out;
  return kl;
}

class KlTest : public EvalTest {
 protected:
  void SetUp() override {
    reference_ = tiny_reference();
    rows_ = eval(tiny_model(), reference_.ids);
    std::filesystem::rename(dir_.file("out.f32"), file_);
  }
  Outcome kl(const Args& more = {}) {
    Args args = {"eval", "kl", tiny_model(), "--ids-file", dir_.file("ids.txt"), "--reference", file_};
    args.insert(args.end(), more.begin(), more.end());
    return strata(args);
  }
  void write_rows(const std::vector<float>& rows) {
    write_file(file_, {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float)});
  }

  Reference reference_;
  std::vector<float> rows_;
  const std::string file_ = dir_.file("reference.f32");
};

TEST_F(KlTest, AModelIsNotFarFromItself) {
  const Kl same = parse_kl(kl());
  EXPECT_EQ(same.mean, 0);
  EXPECT_EQ(same.max, 0);
  EXPECT_EQ(same.same, 100);
  EXPECT_EQ(same.n, static_cast<int>(reference_.ids.size()));
  const Kl coarser = parse_kl(kl({"--kv-type", "f16"}));
  EXPECT_GT(coarser.max, 0);
  EXPECT_GE(coarser.max, coarser.mean);
  EXPECT_LT(coarser.max, 1e-3);
}

TEST_F(KlTest, IsTheDivergenceFromTheReference) {
  // Two rows become other distributions, with the probabilities in the opposite order.
  const std::vector<float> model = rows_;
  double sum = 0, max = 0;
  for (const size_t row : {size_t{1}, size_t{4}}) {
    float* r = rows_.data() + row * 512;
    std::reverse(r, r + 512);
    double divergence = 0;
    for (size_t i = 0; i < 512; i++) {
      divergence += std::exp(double{r[i]}) * (double{r[i]} - double{model[row * 512 + i]});
    }
    sum += divergence;
    max = std::max(max, divergence);
  }
  write_rows(rows_);
  const Kl found = parse_kl(kl());
  const auto n = static_cast<double>(reference_.ids.size());
  EXPECT_NEAR(found.mean, sum / n, 1e-5 * sum);
  EXPECT_NEAR(found.max, max, 1e-5 * max);
  EXPECT_NEAR(found.same, 100 * (n - 2) / n, 0.01);
}

TEST_F(KlTest, RefusesReferencesThatAreNone) {
  std::vector<float> rows = rows_;
  rows[512 * 2 + 3] = NAN;
  write_rows(rows);
  EXPECT_TRUE(refused(kl(), 2, "row 2 is not made of log-probabilities"));
  rows.pop_back();
  write_rows(rows);
  EXPECT_TRUE(refused(kl(), 2, "it belongs to other ids or another model"));
  std::filesystem::remove(file_);
  EXPECT_TRUE(refused(kl(), 2, file_));
}

}  // namespace
}  // namespace strata::test
