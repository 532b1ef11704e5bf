// Random histories of several sequences, appended, cut back, remembered and restored in one engine: what a sequence
// says next has the same bits as in a fresh run over the tokens that are left.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/engine.h"
#include "support/golden.h"

namespace strata::test {
namespace {

constexpr int64_t kContext = 72;  // three blocks, the last one not full
constexpr int kSequences = 3;
constexpr int kCheckpoints = 4;
constexpr int32_t kVocabulary = 512;

engine::EngineConfig history_config() {
  engine::EngineConfig config;
  config.context = kContext;
  config.threads = 2;
  config.chunk = 24;
  config.deterministic = true;
  config.max_sequences = kSequences;
  config.max_checkpoints = kCheckpoints;
  config.ram_bytes = uint64_t{1} << 30;
  return config;
}

using Logits = std::vector<float>;

// The rows of a step and the logits of its row `row`.
Result<Logits> step(engine::Engine& engine, std::span<const model::BatchRows> batch, int32_t row) {
  RETURN_IF_ERROR(engine.step(batch));
  Logits found;
  const int32_t rows[] = {row};
  RETURN_IF_ERROR(engine.logits(rows, [&](int64_t, std::span<const float> logits) -> Status {
    found.assign(logits.begin(), logits.end());
    return {};
  }));
  return found;
}

// A sequence and what it should hold.
struct History {
  model::SequenceState state;
  std::vector<int32_t> tokens;
  std::map<int, size_t> checkpoints;  // id -> length
};

class Histories {
 public:
  Histories(engine::Engine& engine, engine::Engine& fresh, Stats& stats, bool recurrent, uint64_t seed)
      : engine_(engine), fresh_(fresh), stats_(stats), recurrent_(recurrent), random_(seed) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); i++) {
      SCOPED_TRACE("operation " + std::to_string(i));
      one_operation();
      check_counters();
    }
    for (History& h : histories_) check_next(h);
    histories_.clear();
    check_counters();
  }

 private:
  void one_operation() {
    if (histories_.empty()) return add();
    switch (random_.below(10)) {
      case 0: return add();
      case 1: return remove();
      case 2:
      case 3: return truncate(any());
      case 4: return checkpoint(any());
      case 5:
      case 6: return restore(any());
      case 7: return check_next(any());
      default: return append();
    }
  }
  History& any() { return histories_[random_.below(histories_.size())]; }

  void add() {
    auto made = engine_.make_sequence();
    ASSERT_EQ(made.ok(), histories_.size() < kSequences);
    if (made.ok()) histories_.push_back({std::move(*made), {}, {}});
  }
  void remove() {
    std::vector<History> kept;
    const size_t gone = random_.below(histories_.size());
    for (size_t i = 0; i < histories_.size(); i++) {
      if (i != gone) kept.push_back(std::move(histories_[i]));
    }
    histories_ = std::vector<History>();
    histories_.swap(kept);
  }

  // One step of some sequences together, with different numbers of rows.
  void append() {
    std::vector<std::vector<int32_t>> ids(histories_.size());
    std::vector<model::BatchRows> batch;
    int32_t rows = 0;
    History* last = nullptr;
    for (size_t i = 0; i < histories_.size(); i++) {
      History& h = histories_[i];
      const size_t n = std::min<size_t>(random_.below(9), static_cast<size_t>(kContext) - h.tokens.size());
      if (n == 0) continue;
      for (size_t t = 0; t < n; t++) ids[i].push_back(static_cast<int32_t>(random_.below(kVocabulary)));
      batch.push_back({&h.state, ids[i]});
      h.tokens.insert(h.tokens.end(), ids[i].begin(), ids[i].end());
      rows += static_cast<int32_t>(n);
      last = &h;
    }
    if (batch.empty()) return;
    const auto found = step(engine_, batch, rows - 1);
    ASSERT_TRUE(found.ok()) << found.error().message;
    check_last(*last, *found);
  }

  void truncate(History& h) {
    const size_t n = random_.below(h.tokens.size() + 2);
    const bool known =
        std::any_of(h.checkpoints.begin(), h.checkpoints.end(), [&](const auto& c) { return c.second == n; });
    const bool possible = n <= h.tokens.size() && (!recurrent_ || n == 0 || n == h.tokens.size() || known);
    ASSERT_EQ(h.state.can_truncate(static_cast<int64_t>(n)), possible);
    ASSERT_EQ(h.state.truncate(static_cast<int64_t>(n)).ok(), possible);
    if (possible) cut(h, n);
  }
  void cut(History& h, size_t n) {
    h.tokens.resize(n);
    std::erase_if(h.checkpoints, [&](const auto& c) { return c.second > n; });
  }
  void checkpoint(History& h) {
    size_t used = 0;
    for (const History& other : histories_) used += other.checkpoints.size();
    const auto made = h.state.checkpoint();
    ASSERT_EQ(made.ok(), used < kCheckpoints);
    if (made.ok()) h.checkpoints[*made] = h.tokens.size();
  }
  void restore(History& h) {
    if (h.checkpoints.empty()) return;
    auto at = h.checkpoints.begin();
    std::advance(at, random_.below(h.checkpoints.size()));
    if (random_.below(5) == 0) {
      h.state.drop_checkpoint(at->first);
      h.checkpoints.erase(at);
      return;
    }
    const Status status = h.state.restore(at->first);
    ASSERT_TRUE(status.ok()) << status.error().message;
    cut(h, at->second);
  }

  // The logits after the tokens of a history in an engine that has seen nothing else.
  Logits expected(const std::vector<int32_t>& tokens) {
    auto state = fresh_.make_sequence();
    EXPECT_TRUE(state.ok());
    Logits found;
    for (size_t at = 0; at < tokens.size();) {
      const size_t n = std::min<size_t>(tokens.size() - at, static_cast<size_t>(fresh_.max_rows()));
      const model::BatchRows batch[] = {{&*state, std::span(tokens).subspan(at, n)}};
      auto logits = step(fresh_, batch, static_cast<int32_t>(n) - 1);
      EXPECT_TRUE(logits.ok());
      if (logits.ok()) found = std::move(*logits);
      at += n;
    }
    return found;
  }
  void check_last(const History& h, const Logits& found) {
    const Logits fresh = expected(h.tokens);
    ASSERT_EQ(fresh.size(), static_cast<size_t>(kVocabulary));
    ASSERT_EQ(std::memcmp(fresh.data(), found.data(), fresh.size() * sizeof(float)), 0) << h.tokens.size() << " tokens";
  }
  void check_next(History& h) {
    if (h.tokens.size() == static_cast<size_t>(kContext)) return;
    const int32_t id = static_cast<int32_t>(random_.below(kVocabulary));
    const model::BatchRows batch[] = {{&h.state, {&id, 1}}};
    h.tokens.push_back(id);
    const auto found = step(engine_, batch, 0);
    ASSERT_TRUE(found.ok()) << found.error().message;
    check_last(h, *found);
  }

  void check_counters() {
    int64_t blocks = 0;
    for (const History& h : histories_) {
      ASSERT_EQ(h.state.n_tokens(), static_cast<int64_t>(h.tokens.size()));
      blocks += static_cast<int64_t>((h.tokens.size() + model::kBlockTokens - 1) / model::kBlockTokens);
    }
    ASSERT_EQ(stats_.get(Counter::kKvBlocksUsed), blocks);
  }

  engine::Engine& engine_;
  engine::Engine& fresh_;
  Stats& stats_;
  bool recurrent_;
  Random random_;
  std::vector<History> histories_;
};

class RandomHistories : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, RandomHistories, testing::Values("qwen3moe", "qwen3next", "qwen4exp"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(RandomHistories, SayWhatAFreshRunSays) {
  const std::string path = golden_path(std::string("arch/") + GetParam() + "/model-bf16.gguf");
  const auto model = gguf::Model::open(path, real_file_system());
  ASSERT_TRUE(model.ok()) << model.error().message;
  Stats stats, fresh_stats;
  auto engine = engine::Engine::open(**model, history_config(), stats);
  auto fresh = engine::Engine::open(**model, history_config(), fresh_stats);
  ASSERT_TRUE(engine.ok() && fresh.ok());
  const bool recurrent = std::string_view(GetParam()) != "qwen3moe";
  for (uint64_t seed = 1; seed <= 12 && !HasFailure(); seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Histories(**engine, **fresh, stats, recurrent, seed).run(60);
  }
}

}  // namespace
}  // namespace strata::test
