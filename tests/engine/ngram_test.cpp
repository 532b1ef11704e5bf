// The n-gram table in a whole engine: the same numbers from every place that it can be in, each row read once a step,
// and a row that cannot be read ends its own request and no other. M18 (a disk error names file and offset).
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/golden_check.h"
#include "engine/scheduler.h"
#include "model/model_copy.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using engine::EngineConfig;
using testing::HasSubstr;

EngineConfig config_with(const char* place, const std::string& device = "cpu") {
  EngineConfig config = test_config();
  config.table = model::find_table_kind(place);
  config.device = device;
  return config;
}

TEST(NgramTable, EveryPlaceGivesTheSameBits) {
  const GoldenModel golden = load_arch_golden("qwen4exp");
  for (const Cut cut : {Cut::kChunksOf7, Cut::kBatchOfThree}) {
    std::vector<float> expected;
    EXPECT_LE(worst_difference(golden, config_with("ram"), cut, &expected), golden.limit);
    for (const char* place : {"direct", "mapped"}) {
      std::vector<float> found;
      EXPECT_GE(worst_difference(golden, config_with(place), cut, &found), 0);
      EXPECT_EQ(found, expected) << place;
    }
  }
}

// Four heads a token. No row is read twice in a step, and none is read for a step that was not asked for it.
TEST(NgramTable, ATokenReadsItsRowsOnce) {
  Stats stats;
  const GoldenModel golden = load_arch_golden("qwen4exp");
  EXPECT_GE(worst_difference(golden, config_with("direct"), Cut::kChunksOf1, nullptr, &stats), 0);
  const int64_t tokens = stats.get(Counter::kTokensForward);
  EXPECT_EQ(stats.get(Counter::kNgramRows), 4 * tokens);
  EXPECT_EQ(stats.get(Counter::kNgramDistinctRows), 4 * tokens) << "each head has rows of its own";
  EXPECT_GT(stats.get(Counter::kNgramReads), 0);
  EXPECT_LE(stats.get(Counter::kNgramReads), stats.get(Counter::kNgramDistinctRows));
  Stats in_ram;
  EXPECT_GE(worst_difference(golden, config_with("ram"), Cut::kChunksOf1, nullptr, &in_ram), 0);
  EXPECT_EQ(in_ram.get(Counter::kNgramRows), 4 * tokens);
  EXPECT_EQ(in_ram.get(Counter::kNgramReads), 0);
}

// A model whose file ends with the table.
class CutTable : public testing::Test {
 protected:
  void SetUp() override {
    ModelCopy copy("qwen4exp");
    copy.add_tensor(copy.take_tensor(model::kNgramTable));
    path_ = folder_.file("model.gguf");
    copy.write(path_);
    model_ = gguf::Model::open(path_, real_file_system()).value();
    const gguf::TensorInfo& table = *model_->find_tensor(model::kNgramTable);
    // The last head's rows are the table's last ones.
    lost_row_ = 3500;
    lost_at_ = table.file_offset + static_cast<uint64_t>(lost_row_) * table.row_bytes;
  }

  void open(int n_devices, int chunk) {
    EngineConfig config = config_with("direct");
    if (n_devices > 1) config.device = "sim:2x64MiB/seed=3";
    config.deterministic = true;
    config.chunk = chunk;
    engine_ = engine::Engine::open(*model_, config, stats_).value();
    ids_ = rows_and_ids();
  }
  void cut() { ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(lost_at_)), 0); }

  // Prompts of which no token, and of which the last token reads a row that will be lost.
  struct Prompts {
    std::vector<int32_t> good, bad;
  };
  bool reads_lost_row(std::span<const int32_t> ids) const {
    const model::NgramParams& params = engine_->hparams().ngram;
    std::vector<int64_t> rows(static_cast<size_t>(params.n_heads()));
    model::ngram_rows(params, ids, rows);
    return std::any_of(rows.begin(), rows.end(), [&](int64_t row) { return row >= lost_row_; });
  }
  Prompts rows_and_ids() const {
    Prompts prompts;
    for (auto* ids : {&prompts.good, &prompts.bad}) {
      for (int32_t id = 10; ids->size() < 12; id++) {
        ids->push_back(id);
        const bool wanted = ids == &prompts.bad && ids->size() == 12;
        if (reads_lost_row(*ids) != wanted) ids->pop_back();
        ASSERT(id < 500);
      }
    }
    return prompts;
  }

  const TempDir folder_;
  std::string path_;
  int64_t lost_row_ = 0;
  uint64_t lost_at_ = 0;
  Stats stats_;
  std::unique_ptr<gguf::Model> model_;
  std::unique_ptr<engine::Engine> engine_;
  Prompts ids_;
};

TEST_F(CutTable, AStepOfTwoSequencesLosesOne) {
  open(1, 16);
  auto good = engine_->make_sequence().value(), bad = engine_->make_sequence().value();
  const auto step = [&](size_t first, size_t n) {
    const model::BatchRows batch[] = {{&bad, std::span<const int32_t>(ids_.bad).subspan(first, n)},
                                      {&good, std::span<const int32_t>(ids_.good).subspan(first, n)}};
    return engine_->step(batch);
  };
  const Status whole = step(0, 4);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  cut();
  ASSERT_TRUE(step(4, 7).ok());
  ASSERT_TRUE(step(11, 1).ok()) << "the other one goes on";
  EXPECT_EQ(good.n_tokens(), 12);
  EXPECT_TRUE(good.failure().ok());
  EXPECT_EQ(bad.n_tokens(), 11);
  ASSERT_FALSE(bad.failure().ok());
  EXPECT_EQ(bad.failure().error().code, ErrorCode::kIo);
  EXPECT_THAT(bad.failure().error().message, HasSubstr(path_));
  // Nothing is computed for it until it has gone back.
  const model::BatchRows again[] = {{&bad, std::span<const int32_t>(ids_.good).first(1)}};
  EXPECT_EQ(engine_->step(again).error().code, ErrorCode::kBadInput);
  ASSERT_TRUE(bad.truncate(0).ok());
  EXPECT_TRUE(engine_->step(again).ok());
  // Alone, its failure is the step's.
  ASSERT_TRUE(bad.truncate(0).ok());
  const model::BatchRows all[] = {{&bad, ids_.bad}};
  const Status failed = engine_->step(all);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
}

class Answer final : public engine::RequestListener {
 public:
  void on_token(int32_t id, const text::Logprobs*) override { tokens.push_back(id); }
  void on_text(std::string_view) override {}
  void on_finish(const engine::RequestResult& r) override { result = r; }
  std::vector<int32_t> tokens;
  engine::RequestResult result;
};

// Also where steps of prompts follow one another through two devices.
class CutTableRequests : public CutTable, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Devices, CutTableRequests, testing::Values(1, 2));

TEST_P(CutTableRequests, OnlyTheOneThatNeedsALostRowFails) {
  open(GetParam(), 8);
  const auto tokenizer = text::Tokenizer::load(*model_).value();
  engine::Scheduler scheduler(*engine_, *tokenizer, {}, real_clock());
  engine::RequestParams params;
  params.sampling.temp = 0;
  params.max_tokens = 1;
  params.ignore_eos = true;
  const auto run = [&](std::vector<std::pair<std::vector<int32_t>, Answer*>> requests) {
    for (const auto& [prompt, answer] : requests) {
      ASSERT_TRUE(scheduler.submit(nullptr, prompt, params, *answer).ok());
    }
    for (int i = 0; i < 200 && scheduler.step(); i++) continue;
  };
  Answer before;
  run({{ids_.good, &before}});
  EXPECT_EQ(before.result.finish, engine::Finish::kMaxTokens);
  cut();
  Answer good, bad, more;
  run({{ids_.good, &good}, {ids_.bad, &bad}, {ids_.good, &more}});
  for (const Answer* answer : {&good, &more}) {
    EXPECT_EQ(answer->result.finish, engine::Finish::kMaxTokens);
    EXPECT_EQ(answer->tokens, before.tokens);
  }
  EXPECT_EQ(bad.result.finish, engine::Finish::kFailed);
  ASSERT_FALSE(bad.result.error.ok());
  EXPECT_THAT(bad.result.error.error().message, HasSubstr(path_));
  EXPECT_TRUE(bad.tokens.empty());
  EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 0) << "all was given back";
}

}  // namespace
}  // namespace strata::test
