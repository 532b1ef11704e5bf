// Rows of a step's tokens on their way to the device, for several sequences at once; and that a row that does not come
// is the end of its own sequence alone. M18 (a disk error names file and offset).
#include <algorithm>

#include "device/sim/machine.h"
#include "model/ngram/feed.h"
#include "model/ngram_rig.h"

namespace strata::test {
namespace {

using model::BatchRows;
using model::HParams;
using model::NgramFeed;
using model::SequencePool;
using model::SequenceState;

constexpr int64_t kTableRows = 20'000;

// Two heads for pairs and two for triples, 5,000 rows each.
HParams hparams() {
  HParams hp;
  hp.n_layers = 1;
  hp.dim = 16;
  hp.n_streams = 2;
  hp.n_vocab = 512;
  hp.recurrent = {true};
  hp.delta = {.n_key_heads = 1, .n_value_heads = 2, .key_dim = 4, .value_dim = 4, .kernel = 3};
  hp.ngram = {.layer = 0,
              .size = 3,
              .heads_per_order = 2,
              .kernel = 4,
              .row_dim = kRowDim,
              .channels = 32,
              .separator = 7,
              .multipliers = model::derive_multipliers(3, 512),
              .head_rows = {4999, 4993, 4987, 4973},
              .head_offsets = {0, 5000, 10'000, 15'000}};
  return hp;
}

constexpr model::StateLimits kLimits{.max_sequences = 3, .max_checkpoints = 1, .max_tokens = 1000};
constexpr int kMaxRows = 600;  // more than two pieces

class Feed : public testing::Test {
 protected:
  void make(device::Device& device) {
    stream_ = device.make_stream("test");
    memory_ = model::StateMemory::create(device, hp_, 0, 1, kLimits, kernels::KvType::kF32).value();
    const std::vector<SequencePool::PartState> parts = {{memory_.get(), stream_.get()}};
    pool_ = std::make_unique<SequencePool>(kLimits, parts, rig_.stats);
    auto feed = NgramFeed::create({.model = *rig_.model,
                                   .hp = hp_,
                                   .device = device,
                                   .stats = rig_.stats,
                                   .limits = {.max_rows = kMaxRows},
                                   .table = {.files = &files_, .clock = &real_clock()}});
    ASSERT_TRUE(feed.ok()) << feed.error().message;
    feed_ = std::move(*feed);
    const auto bytes = static_cast<size_t>(kMaxRows * hp_.ngram.width()) * sizeof(float);
    rows_ = device.allocate(bytes, "rows").value();
    back_ = device.allocate_host(bytes, device::MemoryKind::kPinned, "back").value();
  }
  SequenceState sequence() { return pool_->make_sequence().value(); }

  // A step; the tokens of `batch` are the sequences' next ones.
  void step(std::vector<BatchRows> batch) {
    n_ = 0;
    for (BatchRows& part : batch) {
      part.sequence->note_ids(part.first(), part.ids);
      n_ += part.n();
    }
    feed_->begin(batch);
    const auto view = device::view_of<float>(*rows_, kMaxRows, hp_.ngram.width());
    feed_->enqueue(*stream_, kMaxRows, view);
    stream_->copy(*back_, 0, *rows_, 0, rows_->bytes());
    const Status status = stream_->synchronize();
    ASSERT_TRUE(status.ok()) << status.error().message;
    feed_->end();
    for (const BatchRows& part : batch) part.sequence->advance(part.n());
  }

  // Whether step row r holds the rows for the last of `ids`.
  testing::AssertionResult right(int64_t r, std::span<const int32_t> ids) {
    std::vector<int64_t> numbers(4);
    model::ngram_rows(hp_.ngram, ids, numbers);
    const auto width = static_cast<size_t>(hp_.ngram.width());
    const auto found = back_->read<float>(static_cast<size_t>(r) * width * sizeof(float), width);
    for (size_t h = 0; h < 4; h++) {
      for (int64_t i = 0; i < kRowDim; i++) {
        const float value = found.span()[h * kRowDim + static_cast<size_t>(i)];
        if (value == row_value(numbers[h], i)) continue;
        return testing::AssertionFailure() << "row " << r << ", head " << h << ", value " << i << ": " << value;
      }
    }
    return testing::AssertionSuccess();
  }
  int64_t count(Counter counter) const { return rig_.stats.get(counter); }

  TableRig rig_{kTableRows};
  RangeFaults files_{rig_.memory_files, real_clock()};
  HParams hp_ = hparams();
  std::unique_ptr<device::sim::SimMachine> machine_;  // of the test that has one
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<model::StateMemory> memory_;
  std::unique_ptr<SequencePool> pool_;
  std::unique_ptr<NgramFeed> feed_;
  std::unique_ptr<device::Buffer> rows_;
  std::unique_ptr<device::HostBuffer> back_;
  int64_t n_ = 0;
};

std::vector<int32_t> random_ids(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; i++) ids.push_back(static_cast<int32_t>(random.below(500)) + 10);
  return ids;
}

// However sequences are cut and batched, each token gets the rows of its own last three.
TEST_F(Feed, TokensGetTheRowsOfTheirOwnHistory) {
  make(rig_.device);
  const std::vector<int32_t> a = random_ids(700, 1), b = random_ids(300, 2);
  SequenceState first = sequence(), second = sequence();
  int64_t at_a = 0, at_b = 0;
  for (const auto& [n_a, n_b] : {std::pair<int64_t, int64_t>{1, 2}, {1, 1}, {5, 0}, {520, 80}, {1, 1}, {2, 200}}) {
    std::vector<BatchRows> batch;
    if (n_a > 0) batch.push_back({&first, std::span(a).subspan(static_cast<size_t>(at_a), static_cast<size_t>(n_a))});
    if (n_b > 0) batch.push_back({&second, std::span(b).subspan(static_cast<size_t>(at_b), static_cast<size_t>(n_b))});
    step(batch);
    for (int64_t i = 0; i < n_a; i++) EXPECT_TRUE(right(i, std::span(a).first(static_cast<size_t>(at_a + i + 1))));
    for (int64_t i = 0; i < n_b; i++) {
      EXPECT_TRUE(right(n_a + i, std::span(b).first(static_cast<size_t>(at_b + i + 1))));
    }
    at_a += n_a;
    at_b += n_b;
  }
  EXPECT_EQ(count(Counter::kNgramRows), 4 * (at_a + at_b));
  EXPECT_LT(count(Counter::kNgramReads), count(Counter::kNgramRows));
}

TEST_F(Feed, GoingBackForgetsWhatCameBehind) {
  make(rig_.device);
  SequenceState s = sequence();
  const std::vector<int32_t> ids = {11, 12, 13, 14, 15}, other = {21, 22}, joined = {11, 12, 13, 21, 22};
  step({{&s, std::span(ids).first(3)}});
  const int checkpoint = s.checkpoint().value();
  step({{&s, std::span(ids).subspan(3)}});
  ASSERT_TRUE(s.restore(checkpoint).ok());
  step({{&s, other}});
  EXPECT_TRUE(right(0, std::span(joined).first(4)));
  EXPECT_TRUE(right(1, joined));
  ASSERT_TRUE(s.truncate(0).ok());
  step({{&s, other}});
  EXPECT_TRUE(right(0, std::span(other).first(1)));
  EXPECT_TRUE(right(1, other));
}

TEST_F(Feed, EqualRowsOfAStepAreReadOnce) {
  make(rig_.device);
  SequenceState a = sequence(), b = sequence();
  const std::vector<int32_t> ids = {42};
  step({{&a, ids}, {&b, ids}});
  EXPECT_EQ(count(Counter::kNgramRows), 8);
  EXPECT_EQ(count(Counter::kNgramDistinctRows), 4);
  EXPECT_EQ(count(Counter::kNgramReads), 4);
  step({{&a, ids}});
  EXPECT_EQ(count(Counter::kNgramReads), 8) << "a step keeps nothing for the next one";
}

TEST_F(Feed, M18ARowThatCannotBeReadFailsItsSequenceAlone) {
  make(rig_.device);
  SequenceState good = sequence(), bad = sequence(), more = sequence();
  const std::vector<int32_t> ids = random_ids(3, 4), unlucky = {31, 32, 33}, others = random_ids(3, 6);
  step({{&good, ids}, {&bad, unlucky}, {&more, others}});
  std::vector<int64_t> numbers(4);
  model::ngram_rows(hp_.ngram, unlucky, numbers);
  files_.spoil(rig_.offset(numbers[3]), rig_.offset(numbers[3]) + 1);
  ASSERT_TRUE(bad.truncate(0).ok());
  const std::vector<int32_t> next = {50};
  step({{&good, next}, {&bad, unlucky}, {&more, next}});
  EXPECT_TRUE(good.failure().ok());
  EXPECT_TRUE(more.failure().ok());
  EXPECT_FALSE(good.lost());
  ASSERT_FALSE(bad.failure().ok());
  EXPECT_TRUE(bad.lost());
  EXPECT_THAT(bad.failure().error().message, testing::HasSubstr("/models/table.gguf"));
  std::vector<int32_t> all = ids;
  all.push_back(50);
  EXPECT_TRUE(right(0, all));
  EXPECT_TRUE(right(1, std::span(unlucky).first(1)));
  // Zeros where the row is missing, not what was there before.
  {
    const auto width = static_cast<size_t>(hp_.ngram.width());
    const auto found = back_->read<float>(3 * width * sizeof(float), width);
    EXPECT_EQ(found.span()[0], row_value(numbers[0], 0));
    for (size_t i = 3 * kRowDim; i < width; i++) EXPECT_EQ(found.span()[i], 0.0f);
  }
  // Started anew where the row can be read, it is as good as any.
  files_.heal();
  ASSERT_TRUE(bad.truncate(0).ok());
  EXPECT_TRUE(bad.failure().ok());
  step({{&bad, unlucky}});
  EXPECT_FALSE(bad.lost());
  EXPECT_TRUE(right(2, unlucky));
}

// The host's copies of one step are not overwritten while a device still reads them.
TEST_F(Feed, StepsOnASimulatedDeviceDoNotRace) {
  machine_ = device::sim::make_sim("sim:64MiB/seed=5").value();
  make(machine_->device(0));
  SequenceState s = sequence();
  const std::vector<int32_t> ids = random_ids(700, 9);
  step({{&s, std::span(ids).first(590)}});
  for (const int64_t r : {0, 255, 256, 589}) {
    EXPECT_TRUE(right(r, std::span(ids).first(static_cast<size_t>(r) + 1)));
  }
  for (size_t at = 590; at < 594; at++) {
    step({{&s, std::span(ids).subspan(at, 1)}});
    EXPECT_TRUE(right(0, std::span(ids).first(at + 1)));
  }
  EXPECT_TRUE(machine_->races().empty());
}

TEST_F(Feed, TakesLessThanTheMemoryItMay) {
  HParams hp = hparams();
  hp.ngram.row_dim = 160;
  hp.ngram.head_rows.assign(16, 20'000'000);
  // As the released table has them: 90 bytes a row.
  gguf::TensorInfo tensor = *rig_.tensor;
  tensor.row_bytes = 90;
  for (const int rows : {1, 512, 2048}) {
    const uint64_t uses = static_cast<uint64_t>(rows) * 16;
    EXPECT_LT(model::kDirectTable.bytes_needed(tensor, static_cast<int64_t>(uses)), 33 * kMiB);
    EXPECT_LT(NgramFeed::bytes_needed(*rig_.model, hp, {.max_rows = rows}, model::kDirectTable), 64 * kMiB);
  }
}

}  // namespace
}  // namespace strata::test
