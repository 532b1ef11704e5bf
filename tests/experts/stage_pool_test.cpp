// Stage buffers: who gets which, when more are made, what hints may take, what becomes of failed fills.
#include "experts/stage_pool.h"

#include <atomic>
#include <thread>

#include "experts/support.h"
#include "experts/test_devices.h"

namespace strata::test {
namespace {

using device::MemoryKind;
using device::sim::FaultPoint;
using experts::ExpertKey;
using experts::StagePool;
using Outcome = StagePool::Claim::Outcome;

constexpr uint64_t kPlentyOfRam = 64 * kGiB;

class StagePoolTest : public testing::Test {
 protected:
  std::unique_ptr<StagePool> make(int64_t n_buffers, bool pin = true) {
    auto pool = StagePool::create({.device = device_,
                                   .layout = model_.layout,
                                   .stats = stats_,
                                   .n_buffers = n_buffers,
                                   .buffer_bytes = 8192,
                                   .alignment = 4096,
                                   .pin = pin,
                                   .available_ram = [this] { return ram_; }});
    EXPECT_TRUE(pool.ok());
    return std::move(pool).value();
  }
  // Has the expert read and gives its lease back; returns its place.
  static uint32_t stage(StagePool& pool, ExpertKey key) {
    pool.enter_layer(key.layer);
    const StagePool::Claim claim = pool.claim(key);
    EXPECT_EQ(claim.outcome, Outcome::kMine);
    fill(pool, claim.place);
    pool.release(claim.place);
    return claim.place;
  }
  static void fill(StagePool& pool, uint32_t place) {
    pool.prepare(place);
    pool.filled(place, {});
  }
  static bool present(StagePool& pool, ExpertKey key) {
    const auto place = pool.claim_present(key);
    if (place) pool.release(*place);
    return place.has_value();
  }

  const ExpertModel model_{ExpertSpec{.n_layers = 4, .n_experts = 4}, numbered_parts()};
  std::unique_ptr<device::sim::SimMachine> machine_ = device::sim::make_sim("sim:1MiB", {.manual = true}).value();
  device::sim::SimDevice& device_ = machine_->device(0);
  Result<uint64_t> ram_ = kPlentyOfRam;
  Stats stats_;
};

TEST_F(StagePoolTest, TheLeastRecentlyUsedBufferIsTaken) {
  const auto pool = make(3);
  stage(*pool, {0, 0});
  const uint32_t second = stage(*pool, {0, 1});
  stage(*pool, {0, 2});
  EXPECT_TRUE(present(*pool, {0, 0}));  // which refreshes it
  EXPECT_EQ(stage(*pool, {1, 0}), second);
  EXPECT_FALSE(present(*pool, {0, 1}));
  EXPECT_TRUE(present(*pool, {0, 2}));
  EXPECT_EQ(stats_.get(Counter::kStageFills), 4);
  EXPECT_EQ(pool->n_buffers(), 3);
}

TEST_F(StagePoolTest, AClaimOfWhatIsThereOrComingJoins) {
  const auto pool = make(2);
  const StagePool::Claim first = pool->claim({0, 0});
  EXPECT_EQ(first.outcome, Outcome::kMine);
  EXPECT_FALSE(pool->claim_present({0, 0}).has_value());
  const StagePool::Claim second = pool->claim({0, 0});
  EXPECT_EQ(second.outcome, Outcome::kComing);
  EXPECT_EQ(second.place, first.place);
  fill(*pool, first.place);
  EXPECT_TRUE(pool->wait(first.place).ok());
  EXPECT_TRUE(pool->wait(second.place).ok());
  EXPECT_EQ(pool->claim({0, 0}).outcome, Outcome::kHere);
  for (int i = 0; i < 3; i++) pool->release(first.place);
}

TEST_F(StagePoolTest, ItGrowsOnlyWhenAllAreLeased) {
  const auto pool = make(2);
  const uint32_t first = pool->claim({0, 0}).place;
  const uint32_t second = pool->claim({0, 1}).place;
  fill(*pool, first);
  fill(*pool, second);
  EXPECT_EQ(pool->claim({0, 2}).outcome, Outcome::kNoRoom);
  pool->release(second);
  ASSERT_TRUE(pool->make_room().ok());
  EXPECT_EQ(pool->n_buffers(), 2);  // there is room already
  const StagePool::Claim third = pool->claim({0, 2});
  EXPECT_EQ(third.outcome, Outcome::kMine);
  EXPECT_EQ(third.place, second);
  EXPECT_EQ(pool->claim({0, 3}).outcome, Outcome::kNoRoom);
  ASSERT_TRUE(pool->make_room().ok());
  EXPECT_EQ(pool->n_buffers(), 3);
  EXPECT_EQ(pool->n_asked(), 2);
  const uint32_t fourth = pool->claim({0, 3}).place;
  fill(*pool, third.place);
  fill(*pool, fourth);
  for (const uint32_t place : {first, third.place, fourth}) pool->release(place);

  // The end of start-up gives the third buffer back, and the expert in it is forgotten.
  const uint64_t bytes = machine_->host_bytes();
  pool->end_start_up();
  EXPECT_EQ(pool->n_buffers(), 2);
  EXPECT_EQ(machine_->host_bytes(), bytes / 3 * 2);
  EXPECT_TRUE(present(*pool, {0, 0}));
  EXPECT_FALSE(present(*pool, {0, 3}));
}

TEST_F(StagePoolTest, NoMemoryToGrowIsAnError) {
  const auto pool = make(1);
  const uint32_t place = pool->claim({0, 0}).place;
  ram_ = experts::kFreeWhenPinned;  // so pageable memory is asked for at once
  machine_->faults().fail_at(FaultPoint::kAllocation, 1);
  const Status status = pool->make_room();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(pool->n_buffers(), 1);
  fill(*pool, place);
  pool->release(place);
}

// Whoever waited looks the key up anew; the buffer is free once the last of them has, and nothing writes into it.
TEST_F(StagePoolTest, AFailedFillFreesTheBufferAndTellsTheWaiters) {
  const auto pool = make(1);
  const uint32_t place = pool->claim({0, 0}).place;
  ASSERT_EQ(pool->claim({0, 0}).outcome, Outcome::kComing);
  pool->prepare(place);
  Thread waiter([&] {
    const Status status = pool->wait(place);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "bad block");
  });
  pool->filled(place, Error{ErrorCode::kIo, "bad block"}, false);
  waiter.join();
  EXPECT_EQ(pool->claim({0, 0}).outcome, Outcome::kNoRoom);  // the other lease
  EXPECT_FALSE(pool->wait(place).ok());
  EXPECT_EQ(pool->claim({0, 0}).outcome, Outcome::kNoRoom);  // the drive may still write
  pool->settled(place);
  const StagePool::Claim again = pool->claim({0, 0});
  EXPECT_EQ(again.outcome, Outcome::kMine);
  EXPECT_EQ(again.place, place);
  fill(*pool, place);
  EXPECT_TRUE(pool->wait(place).ok());
  pool->release(place);
}

// A buffer that a read has not come back from counts as leased.
TEST_F(StagePoolTest, ALostBufferIsReplaced) {
  const auto pool = make(1);
  const uint32_t place = pool->claim({0, 0}).place;
  pool->prepare(place);
  pool->filled(place, Error{ErrorCode::kIo, "no answer for 600 s"}, false);
  EXPECT_FALSE(pool->wait(place).ok());
  ASSERT_EQ(pool->claim({0, 0}).outcome, Outcome::kNoRoom);
  ASSERT_TRUE(pool->make_room().ok());
  EXPECT_EQ(pool->n_buffers(), 2);
  const StagePool::Claim again = pool->claim({0, 0});
  EXPECT_EQ(again.outcome, Outcome::kMine);
  fill(*pool, again.place);
  pool->release(again.place);
  pool->settled(place);
}

TEST_F(StagePoolTest, HintsTakeNothingFromOthers) {
  const auto pool = make(4);
  pool->enter_layer(0);
  const uint32_t leased = pool->claim({0, 0}).place;
  fill(*pool, leased);
  EXPECT_FALSE(pool->claim_for_hint({0, 0}).has_value());  // it is there
  const auto first = pool->claim_for_hint({1, 0});
  const auto second = pool->claim_for_hint({1, 1});
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(pool->claim_for_hint({1, 0}).has_value());  // it is coming
  EXPECT_FALSE(pool->claim_for_hint({1, 2}).has_value());  // half of the buffers are hints'
  fill(*pool, *first);
  fill(*pool, *second);
  EXPECT_FALSE(pool->claim_for_hint({1, 2}).has_value());  // and not asked for yet
  EXPECT_TRUE(present(*pool, {1, 0}));
  EXPECT_EQ(stats_.get(Counter::kHintsUsed), 1);
  EXPECT_TRUE(pool->claim_for_hint({1, 2}).has_value());
  EXPECT_EQ(stats_.get(Counter::kHintsWasted), 0);
  pool->release(leased);
}

// A hint keeps its buffer until its layer has been and gone without asking for it.
TEST_F(StagePoolTest, HintsThatWereWrongAreLetGo) {
  const auto pool = make(4);
  pool->enter_layer(0);
  const uint32_t wrong = *pool->claim_for_hint({1, 0});
  fill(*pool, wrong);
  for (int32_t e = 1; e < 4; e++) stage(*pool, {0, e});
  pool->enter_layer(1);
  const uint32_t other = *pool->claim_for_hint({2, 0});
  EXPECT_NE(other, wrong);  // although that one has been idle for longer
  fill(*pool, other);
  pool->enter_layer(2);
  EXPECT_EQ(stats_.get(Counter::kHintsWasted), 0);
  EXPECT_EQ(*pool->claim_for_hint({3, 0}), wrong);
  EXPECT_EQ(stats_.get(Counter::kHintsWasted), 1);
  fill(*pool, wrong);
  pool->enter_layer(3);
  EXPECT_TRUE(present(*pool, {3, 0}));
  const uint32_t next_token = *pool->claim_for_hint({0, 0});
  fill(*pool, next_token);
  EXPECT_NE(*pool->claim_for_hint({1, 1}), next_token);
  pool->enter_layer(0);
  EXPECT_TRUE(present(*pool, {0, 0}));
  EXPECT_EQ(stats_.get(Counter::kHintsUsed), 2);
}

TEST_F(StagePoolTest, AFailedHintIsNoError) {
  const auto pool = make(2);
  pool->enter_layer(0);
  const uint32_t place = *pool->claim_for_hint({1, 0});
  pool->prepare(place);
  pool->filled(place, Error{ErrorCode::kIo, "bad block"});
  EXPECT_EQ(stats_.get(Counter::kHintsWasted), 1);
  pool->enter_layer(1);
  const StagePool::Claim claim = pool->claim({1, 0});
  EXPECT_EQ(claim.outcome, Outcome::kMine);
  fill(*pool, claim.place);
  pool->release(claim.place);
}

// With all other buffers leased, a claim waits for what is read for a hint instead of growing.
TEST_F(StagePoolTest, RoomThatAHintTakesIsWaitedFor) {
  const auto pool = make(2);
  pool->enter_layer(0);
  const uint32_t hinted = *pool->claim_for_hint({1, 0});
  const uint32_t leased = pool->claim({0, 0}).place;
  fill(*pool, leased);
  ASSERT_EQ(pool->claim({0, 1}).outcome, Outcome::kNoRoom);
  std::atomic<bool> room{false};
  Thread waiter([&] {
    EXPECT_TRUE(pool->make_room().ok());
    room = true;
  });
  EXPECT_FALSE(room);
  fill(*pool, hinted);
  waiter.join();
  const StagePool::Claim claim = pool->claim({0, 1});
  EXPECT_EQ(claim.place, hinted);
  fill(*pool, claim.place);
  pool->release(claim.place);
  pool->release(leased);
  EXPECT_EQ(pool->n_buffers(), 2);
}

// A copy that is not done: the buffer stays the least recently used one, and its refill waits for the copy.
TEST_F(StagePoolTest, ABufferThatACopyReadsIsTakenInItsTurn) {
  const auto pool = make(2);
  const auto stream = device_.make_stream("copies");
  const auto target = device_.allocate(64, "target").value();
  const uint32_t first = pool->claim({0, 0}).place;
  fill(*pool, first);
  stream->copy(*target, 0, *pool->place(first).buffer, 0, 64);
  pool->note_async_read(first, *stream);
  pool->release(first);
  const uint32_t second = pool->claim({0, 1}).place;
  fill(*pool, second);
  pool->release(second);
  EXPECT_FALSE(pool->claim_for_hint({1, 1}).has_value());  // a hint waits for nobody
  const StagePool::Claim claim = pool->claim({1, 0});
  EXPECT_EQ(claim.place, first);
  EXPECT_FALSE(pool->try_prepare(claim.place));
  EXPECT_FALSE(machine_->next_jobs().empty());
  fill(*pool, claim.place);  // runs the copy by hand
  EXPECT_TRUE(machine_->next_jobs().empty());
  EXPECT_EQ(stats_.get(Counter::kStageFenceWaits), 1);
  pool->release(claim.place);
  EXPECT_TRUE(machine_->races().empty());
}

TEST_F(StagePoolTest, ClosingAndTheEndOfStartUpWaitForCopies) {
  for (const bool closing : {false, true}) {
    const auto pool = make(1);
    const auto stream = device_.make_stream("copies");
    const auto target = device_.allocate(64, "target").value();
    const uint32_t place = pool->claim({0, 0}).place;
    fill(*pool, place);
    stream->copy(*target, 0, *pool->place(place).buffer, 0, 64);
    pool->note_async_read(place, *stream);
    pool->release(place);
    EXPECT_FALSE(machine_->next_jobs().empty());
    if (closing) {
      pool->close();
    } else {
      pool->end_start_up();
    }
    EXPECT_TRUE(machine_->next_jobs().empty());
  }
  EXPECT_TRUE(machine_->races().empty());
  EXPECT_EQ(machine_->host_bytes(), 0u);
}

TEST_F(StagePoolTest, PageLockingThatIsRefusedIsReported) {
  machine_->faults().fail_at(FaultPoint::kAllocation, 2);
  const auto pool = make(3);
  EXPECT_EQ(pool->place(0).buffer->kind(), MemoryKind::kPinned);
  EXPECT_EQ(pool->place(1).buffer->kind(), MemoryKind::kPageable);
  EXPECT_EQ(pool->place(2).buffer->kind(), MemoryKind::kPinned);
  EXPECT_THAT(pool->report(), testing::HasSubstr("3 stage buffers of 8 KiB, 2 of them page-locked: stage buffer: "));
}

TEST_F(StagePoolTest, PageLockingLeavesRamFree) {
  ram_ = 3 * kGiB + 8192 + 4096;
  EXPECT_EQ(make(1)->report(), "1 stage buffers of 8 KiB, page-locked");
  ram_ = 3 * kGiB + 8192 + 4095;
  EXPECT_THAT(make(1)->report(),
              testing::HasSubstr("0 of them page-locked: page-locking more would leave less than 3 GiB"));
  ram_ = Error{ErrorCode::kIo, "cannot read /proc/meminfo"};
  EXPECT_THAT(make(1)->report(), testing::HasSubstr("page-locked: cannot read /proc/meminfo"));
  ram_ = kPlentyOfRam;
  EXPECT_THAT(make(1, false)->report(), testing::HasSubstr("switched off"));
}

// The bytes of a pageable buffer were taken when the copy was queued.
TEST_F(StagePoolTest, PageableBuffersCarryNoEvents) {
  const auto pool = make(1, false);
  const auto stream = device_.make_stream("copies");
  const auto target = device_.allocate(64, "target").value();
  const uint32_t place = pool->claim({0, 0}).place;
  fill(*pool, place);
  stream->copy(*target, 0, *pool->place(place).buffer, 0, 64);
  pool->note_async_read(place, *stream);
  pool->release(place);
  stage(*pool, {1, 0});
  EXPECT_EQ(stats_.get(Counter::kStageFenceWaits), 0);
  EXPECT_EQ(machine_->next_jobs(), std::vector<std::string>{"sim:0/copies: copy"});
}

TEST_F(StagePoolTest, BlobsStartAtTheAlignment) {
  device::host::HostDevice host(host_options());
  const auto odd = host.allocate(64, "before").value();
  const auto pool = StagePool::create({.device = host,
                                       .layout = model_.layout,
                                       .stats = stats_,
                                       .n_buffers = 3,
                                       .buffer_bytes = 8192,
                                       .alignment = 65536,
                                       .available_ram = [this] { return ram_; }})
                        .value();
  for (uint32_t i = 0; i < 3; i++) {
    const StagePool::Place place = pool->place(i);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(place.address()) % 65536, 0u);
    EXPECT_LE(place.start + 8192, place.buffer->bytes());
  }
}

}  // namespace
}  // namespace strata::test
