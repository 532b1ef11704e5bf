// Sequences on real state memory: what they take and give back, how far they can go back, and what checkpoints hold.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/format.h"
#include "device/host/host_device.h"
#include "model/sequence.h"

namespace strata::model {
namespace {

using testing::HasSubstr;

// One layer of attention, and with `recurrent` a delta-net layer before it.
HParams small_hparams(bool recurrent) {
  HParams hp;
  hp.n_layers = recurrent ? 2 : 1;
  hp.n_heads = hp.n_kv_heads = 1;
  hp.key_dim = hp.value_dim = 4;
  if (recurrent) hp.recurrent.push_back(true);
  hp.recurrent.push_back(false);
  hp.delta = {.n_key_heads = 1, .n_value_heads = 2, .key_dim = 4, .value_dim = 4, .kernel = 3};
  return hp;
}

constexpr StateLimits kLimits{.max_sequences = 3, .max_checkpoints = 2, .max_tokens = 100};

class Sequences : public testing::Test {
 protected:
  void make(bool recurrent, const StateLimits& limits = kLimits) {
    hp_ = small_hparams(recurrent);
    auto memory = StateMemory::create(device_, hp_, 0, hp_.n_layers, limits, kernels::KvType::kF32);
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    memory_ = std::move(*memory);
    stream_ = device_.make_stream("test");
    const std::vector<SequencePool::PartState> parts = {{memory_.get(), stream_.get()}};
    pool_ = std::make_unique<SequencePool>(limits, parts, stats_);
  }
  SequenceState sequence() {
    auto made = pool_->make_sequence();
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  // As a step does it.
  static void append(SequenceState& s, int64_t n) {
    const Status status = s.reserve(n);
    ASSERT_TRUE(status.ok()) << status.error().message;
    s.advance(n);
  }
  static int checkpoint(SequenceState& s) {
    const auto made = s.checkpoint();
    EXPECT_TRUE(made.ok());
    return made.ok() ? *made : -1;
  }
  void expect_nothing_in_use() const {
    EXPECT_EQ(pool_->free_blocks(), pool_->limits().n_blocks());
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 0);
  }

  // The fixed state of a slot: every value of both kinds set to, or expected to be, `value`.
  void set_state(int slot, float value) {
    for (const FixedState which : {FixedState::kConv, FixedState::kDelta}) {
      const device::View<float> view = memory_->fixed(0, which);
      for (int64_t i = 0; i < view.cols; i++) view.row(slot)[i] = value;
    }
  }
  void expect_state(int slot, float value) const {
    for (const FixedState which : {FixedState::kConv, FixedState::kDelta}) {
      const device::View<float> view = memory_->fixed(0, which);
      for (int64_t i = 0; i < view.cols; i++) ASSERT_EQ(view.row(slot)[i], value) << i;
    }
  }

  Stats stats_;
  device::host::HostDevice device_{{.budget_bytes = 1 << 20, .threads = {.n_threads = 1},
                                    .kernels = *kernels::select_kernels("scalar")}};
  HParams hp_;
  std::unique_ptr<StateMemory> memory_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<SequencePool> pool_;
};

TEST_F(Sequences, TakeBlocksAsTheyGrowAndGiveAllBack) {
  make(false);
  expect_nothing_in_use();
  {
    SequenceState s = sequence();
    EXPECT_EQ(s.n_tokens(), 0);
    EXPECT_TRUE(s.blocks().empty());
    for (const auto& [n, blocks] : std::vector<std::pair<int64_t, size_t>>{{1, 1}, {31, 1}, {1, 2}, {67, 4}}) {
      append(s, n);
      EXPECT_EQ(s.blocks().size(), blocks);
      EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), static_cast<int64_t>(blocks));
      EXPECT_EQ(pool_->free_blocks(), pool_->limits().n_blocks() - static_cast<int>(blocks));
    }
    EXPECT_EQ(s.n_tokens(), 100);
  }
  expect_nothing_in_use();
}

TEST_F(Sequences, AllCanFillTheirContextAtOnceWithBlocksOfTheirOwn) {
  make(true);
  std::vector<SequenceState> all;
  all.reserve(3);
  for (int i = 0; i < 3; i++) {
    all.push_back(sequence());
    append(all.back(), 100);
  }
  std::vector<int32_t> blocks;
  for (const SequenceState& s : all) blocks.insert(blocks.end(), s.blocks().begin(), s.blocks().end());
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::unique(blocks.begin(), blocks.end()), blocks.end());
  EXPECT_GE(blocks.front(), 0);
  EXPECT_LT(blocks.back(), memory_->kv(1).n_blocks);
  all.clear();
  expect_nothing_in_use();
}

TEST_F(Sequences, OneMoreThanThereMayBeIsRefusedUntilOneDies) {
  make(false);
  std::optional<SequenceState> first(sequence());
  const SequenceState second = sequence();
  const SequenceState third = sequence();
  const auto fourth = pool_->make_sequence();
  ASSERT_FALSE(fourth.ok());
  EXPECT_EQ(fourth.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(fourth.error().message, HasSubstr("all 3 sequences"));
  const int slot = first->slot();
  first.reset();
  EXPECT_EQ(sequence().slot(), slot);
}

TEST_F(Sequences, ReservingPastTheContextChangesNothing) {
  make(false);
  SequenceState s = sequence();
  append(s, 40);
  const std::vector<int32_t> blocks = s.blocks();
  const Status status = s.reserve(61);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(status.error().message, HasSubstr("101 tokens exceed the context of 100"));
  EXPECT_EQ(s.n_tokens(), 40);
  EXPECT_EQ(s.blocks(), blocks);
  EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 2);
  append(s, 60);
}

TEST_F(Sequences, MovingHandsOverEverything) {
  make(true);
  {
    std::optional<SequenceState> from(sequence());
    append(*from, 40);
    const int id = checkpoint(*from);
    const int slot = from->slot();
    const std::vector<int32_t> blocks = from->blocks();
    SequenceState to(std::move(*from));
    from.reset();  // gives nothing back
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 2);
    EXPECT_EQ(to.slot(), slot);
    EXPECT_EQ(to.n_tokens(), 40);
    EXPECT_EQ(to.blocks(), blocks);
    append(to, 10);
    EXPECT_TRUE(to.restore(id).ok());
    EXPECT_EQ(to.n_tokens(), 40);
  }
  expect_nothing_in_use();
  const SequenceState a = sequence(), b = sequence(), c = sequence();  // the slot came back once
  EXPECT_FALSE(pool_->make_sequence().ok());
}

TEST_F(Sequences, StartWithClearedState) {
  make(true);
  for (int slot = 0; slot < 5; slot++) set_state(slot, 7);
  const SequenceState s = sequence();
  expect_state(s.slot(), 0);
  expect_state(s.slot() + 1, 7);
}

TEST_F(Sequences, AttentionAloneGoesBackToAnyLength) {
  make(false);
  SequenceState s = sequence();
  append(s, 70);
  EXPECT_FALSE(s.can_truncate(-1));
  EXPECT_FALSE(s.can_truncate(71));
  EXPECT_FALSE(s.truncate(71).ok());
  EXPECT_EQ(s.n_tokens(), 70);
  const std::vector<std::pair<int64_t, size_t>> lengths = {{70, 3}, {65, 3}, {64, 2}, {33, 2}, {1, 1}, {0, 0}};
  for (const auto& [n, blocks] : lengths) {
    EXPECT_TRUE(s.can_truncate(n));
    EXPECT_TRUE(s.truncate(n).ok());
    EXPECT_EQ(s.n_tokens(), n);
    EXPECT_EQ(s.blocks().size(), blocks);
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), static_cast<int64_t>(blocks));
  }
  append(s, 100);
}

TEST_F(Sequences, RecurrentOnesGoBackToTheStartAndToCheckpoints) {
  make(true);
  SequenceState s = sequence();
  append(s, 40);
  set_state(s.slot(), 40);
  checkpoint(s);
  append(s, 20);
  set_state(s.slot(), 60);
  for (int64_t n = -1; n <= 61; n++) EXPECT_EQ(s.can_truncate(n), n == 0 || n == 40 || n == 60) << n;
  const Status status = s.truncate(39);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(status.error().message, HasSubstr("from 60 tokens to 39"));
  EXPECT_EQ(s.n_tokens(), 60);
  expect_state(s.slot(), 60);

  EXPECT_TRUE(s.truncate(60).ok());
  expect_state(s.slot(), 60);
  EXPECT_TRUE(s.truncate(40).ok());
  EXPECT_EQ(s.n_tokens(), 40);
  expect_state(s.slot(), 40);
  EXPECT_TRUE(s.truncate(0).ok());
  expect_state(s.slot(), 0);
  EXPECT_TRUE(s.blocks().empty());
  EXPECT_FALSE(s.can_truncate(40));
}

TEST_F(Sequences, ACheckpointIsRestoredAsOftenAsOneLikes) {
  make(true);
  SequenceState s = sequence();
  append(s, 33);
  set_state(s.slot(), 1);
  const int id = checkpoint(s);
  for (int i = 0; i < 3; i++) {
    append(s, 50);
    set_state(s.slot(), 2);
    ASSERT_TRUE(s.restore(id).ok());
    EXPECT_EQ(s.n_tokens(), 33);
    EXPECT_EQ(s.blocks().size(), 2u);
    expect_state(s.slot(), 1);
  }
}

TEST_F(Sequences, CheckpointsAreLimitedForAllSequencesTogether) {
  for (const bool recurrent : {false, true}) {
    make(recurrent);
    SequenceState a = sequence();
    SequenceState b = sequence();
    const int first = checkpoint(a);
    checkpoint(b);
    const auto third = a.checkpoint();
    ASSERT_FALSE(third.ok());
    EXPECT_EQ(third.error().code, ErrorCode::kNoMemory);
    EXPECT_THAT(third.error().message, HasSubstr("all 2 checkpoints"));
    a.drop_checkpoint(first);
    EXPECT_FALSE(a.restore(first).ok());
    EXPECT_TRUE(b.checkpoint().ok());
    EXPECT_FALSE(a.checkpoint().ok());
  }
}

TEST_F(Sequences, ADyingSequenceGivesItsCheckpointsBack) {
  make(true);
  for (int i = 0; i < 3; i++) {
    SequenceState s = sequence();
    append(s, 10);
    checkpoint(s);
    checkpoint(s);
    EXPECT_FALSE(s.checkpoint().ok());
  }
}

TEST_F(Sequences, ACheckpointOfAnotherSequenceIsRefused) {
  make(true);
  SequenceState a = sequence();
  SequenceState b = sequence();
  append(a, 5);
  const int id = checkpoint(a);
  append(b, 9);
  set_state(b.slot(), 9);
  const Status status = b.restore(id);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(b.n_tokens(), 9);
  expect_state(b.slot(), 9);
}

// What lies after the place one goes back to is gone, and with it the checkpoints there: their keys and values will be
// overwritten, and their blocks go to others.
TEST_F(Sequences, GoingBackOvertakesLaterCheckpoints) {
  for (const bool recurrent : {false, true}) {
    for (const bool by_restore : {false, true}) {
      SCOPED_TRACE(by_restore ? "restore" : "truncate");
      make(recurrent);
      SequenceState s = sequence();
      append(s, 10);
      const int early = checkpoint(s);
      append(s, 40);
      const int late = checkpoint(s);
      append(s, 10);
      ASSERT_TRUE((by_restore ? s.restore(early) : s.truncate(10)).ok());
      const Status overtaken = s.restore(late);
      ASSERT_FALSE(overtaken.ok());
      EXPECT_EQ(overtaken.error().code, ErrorCode::kBadInput);
      EXPECT_EQ(s.n_tokens(), 10);
      append(s, 60);
      EXPECT_EQ(s.can_truncate(50), !recurrent);
      EXPECT_TRUE(s.checkpoint().ok());  // its place is free again
      EXPECT_TRUE(s.restore(early).ok());
      EXPECT_EQ(s.n_tokens(), 10);
    }
  }
}

// Several checkpoints at one length, and truncation to just that length.
TEST_F(Sequences, TruncationKeepsTheCheckpointItGoesTo) {
  make(true);
  SequenceState s = sequence();
  append(s, 10);
  set_state(s.slot(), 10);
  const int first = checkpoint(s);
  const int second = checkpoint(s);
  append(s, 10);
  ASSERT_TRUE(s.truncate(10).ok());
  for (const int id : {first, second}) {
    set_state(s.slot(), 5);
    ASSERT_TRUE(s.restore(id).ok());
    expect_state(s.slot(), 10);
  }
}

// A checkpoint before any token is the cleared state.
TEST_F(Sequences, ACheckpointAtTheStartSurvivesGoingBackToIt) {
  make(true);
  SequenceState s = sequence();
  const int id = checkpoint(s);
  append(s, 10);
  set_state(s.slot(), 3);
  ASSERT_TRUE(s.truncate(0).ok());
  expect_state(s.slot(), 0);
  append(s, 10);
  set_state(s.slot(), 3);
  ASSERT_TRUE(s.restore(id).ok());
  expect_state(s.slot(), 0);
  EXPECT_EQ(s.n_tokens(), 0);
}

TEST_F(Sequences, StateMemoryThatDoesNotFitSaysWhichLayer) {
  hp_ = small_hparams(true);
  const StateLimits limits{.max_sequences = 64, .max_checkpoints = 0, .max_tokens = 4096};
  const auto memory = StateMemory::create(device_, hp_, 0, hp_.n_layers, limits, kernels::KvType::kF32);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(memory.error().message, HasSubstr("the keys of layer 1"));
  EXPECT_EQ(device_.used_bytes(), 0u);
}

TEST(StateType, BlocksOfThirtyTwoWantHeadsOfTheirMultiples) {
  HParams hp = small_hparams(false);
  for (const auto& [keys, values] : {std::pair{32, 64}, {128, 32}, {256, 256}}) {
    hp.key_dim = keys, hp.value_dim = values;
    for (const kernels::KvType type : kernels::kKvTypes) EXPECT_TRUE(StateMemory::check_type(hp, type).ok());
  }
  for (const auto& [keys, values] : {std::pair{80, 64}, {64, 80}, {4, 4}}) {
    hp.key_dim = keys, hp.value_dim = values;
    for (const kernels::KvType type : {kernels::KvType::kF32, kernels::KvType::kF16, kernels::KvType::kBf16}) {
      EXPECT_TRUE(StateMemory::check_type(hp, type).ok());
    }
    const Status status = StateMemory::check_type(hp, kernels::KvType::kQ8_0);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(status.error().message,
              format("--kv-type q8_0 keeps values in blocks of 32, which a head's {} keys and {} values do not divide "
                     "into; use one of f32, f16, bf16",
                     keys, values));
  }
}

TEST(StateType, BytesAreThoseOfItsElements) {
  HParams hp = small_hparams(false);
  hp.key_dim = 64, hp.value_dim = 32, hp.n_kv_heads = 2;
  const StateLimits limits{.max_sequences = 1, .max_checkpoints = 0, .max_tokens = 100};  // four blocks of 32 tokens
  const std::pair<kernels::KvType, uint64_t> kBytesOfToken[] = {{kernels::KvType::kF32, 2 * 96 * 4},
                                                                {kernels::KvType::kF16, 2 * 96 * 2},
                                                                {kernels::KvType::kBf16, 2 * 96 * 2},
                                                                {kernels::KvType::kQ8_0, 2 * 3 * 34}};
  for (const auto& [type, bytes] : kBytesOfToken) {
    EXPECT_EQ(StateMemory::bytes_needed(hp, 0, 1, limits, type), 128 * bytes) << kernels::kv_type_name(type);
    device::host::HostDevice device(
        {.budget_bytes = kMiB, .threads = {}, .kernels = kernels::select_kernels("auto").value()});
    const auto memory = StateMemory::create(device, hp, 0, 1, limits, type);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(device.used_bytes(), 128 * bytes) << kernels::kv_type_name(type);
  }
}

}  // namespace
}  // namespace strata::model
