// How a batch becomes reads of the system: by hand, and for random batches carried out on made-up files.
#include "base/read_plan.h"

#include <cstring>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/random.h"

namespace strata {
namespace {

constexpr size_t kBlock = 4096;

std::byte content(int32_t file, uint64_t position) {
  return static_cast<std::byte>((position * 131 + position / 251 + static_cast<uint64_t>(file) * 17) & 0xff);
}

// Requests with memory of their own for the blocks, and a watched block behind it.
class Batch {
 public:
  void add(int32_t file, uint64_t offset, size_t bytes) {
    const size_t span = block_span(offset, bytes, kBlock);
    memory_.emplace_back(span + kBlock, std::byte{0xee});
    reads_.push_back({.tag = reads_.size(), .file = file, .offset = offset, .bytes = bytes});
    for (size_t i = 0; i < reads_.size(); i++) reads_[i].blocks = memory_[i].data();
  }
  const std::vector<BlockRead>& reads() const { return reads_; }
  const std::byte* memory(size_t i) const { return memory_[i].data(); }

  // As the queue does it.
  static void carry_out(const std::vector<PlannedRead>& plans) {
    for (const PlannedRead& plan : plans) {
      uint64_t at = plan.offset;
      for (const iovec& segment : plan.into) {
        auto* to = static_cast<std::byte*>(segment.iov_base);
        for (size_t i = 0; i < segment.iov_len; i++) to[i] = content(plan.file, at++);
      }
      for (const auto& share : plan.shares) std::memcpy(share.to, share.from, share.bytes);
    }
  }
  bool arrived(size_t i) const {
    const BlockRead& read = reads_[i];
    for (size_t b = 0; b < read.bytes; b++) {
      if (memory_[i][read.offset % kBlock + b] != content(read.file, read.offset + b)) return false;
    }
    return true;
  }
  bool unharmed_behind(size_t i) const {
    const size_t span = block_span(reads_[i].offset, reads_[i].bytes, kBlock);
    for (size_t b = span; b < memory_[i].size(); b++) {
      if (memory_[i][b] != std::byte{0xee}) return false;
    }
    return true;
  }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<BlockRead> reads_;
};

size_t bytes_of(const PlannedRead& plan) {
  size_t bytes = 0;
  for (const iovec& segment : plan.into) bytes += segment.iov_len;
  return bytes;
}

TEST(ReadPlan, SpansCountWholeBlocks) {
  EXPECT_EQ(block_span(0, 1, kBlock), kBlock);
  EXPECT_EQ(block_span(4095, 1, kBlock), kBlock);
  EXPECT_EQ(block_span(4095, 2, kBlock), 2 * kBlock);
  EXPECT_EQ(block_span(100, 4096, kBlock), 2 * kBlock);
  EXPECT_EQ(block_span(8192, 8192, kBlock), 2 * kBlock);
}

TEST(ReadPlan, OneReadTakesItsBlocks) {
  Batch batch;
  batch.add(1, 5000, 100);
  const auto plans = plan_reads(batch.reads(), kBlock, 64 * kBlock);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].file, 1);
  EXPECT_EQ(plans[0].offset, 4096u);
  EXPECT_EQ(plans[0].bytes, kBlock);
  EXPECT_EQ(plans[0].needed_end, 5100u);
}

TEST(ReadPlan, NeighboursBecomeOneReadInTheOrderOfTheFile) {
  Batch batch;
  batch.add(0, 8000, 4000);   // shares block 1 with the next one
  batch.add(0, 100, 7900);
  batch.add(0, 12288, 10);    // begins where the first one's blocks end
  batch.add(0, 20480, 10);    // a block between them
  batch.add(1, 16384, 10);    // another file
  const auto plans = plan_reads(batch.reads(), kBlock, 64 * kBlock);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].offset, 0u);
  EXPECT_EQ(plans[0].bytes, 4 * kBlock);
  EXPECT_EQ(plans[0].wanted.size(), 3u);
  EXPECT_EQ(plans[0].into.size(), 3u);
  EXPECT_EQ(plans[0].shares.size(), 1u);
  EXPECT_EQ(plans[0].shares[0].bytes, 192u);  // 8000 to 8192
  EXPECT_EQ(plans[0].needed_end, 12298u);
  EXPECT_EQ(plans[1].offset, 20480u);
  EXPECT_EQ(plans[2].file, 1);
  Batch::carry_out(plans);
  for (size_t i = 0; i < batch.reads().size(); i++) EXPECT_TRUE(batch.arrived(i)) << i;
}

TEST(ReadPlan, RowsOfOneBlockAreReadOnce) {
  Batch batch;
  for (int i = 0; i < 100; i++) batch.add(0, static_cast<uint64_t>(i % 7) * 512, 512);
  const auto plans = plan_reads(batch.reads(), kBlock, 64 * kBlock);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].bytes, kBlock);
  EXPECT_EQ(plans[0].shares.size(), 99u);
  Batch::carry_out(plans);
  for (size_t i = 0; i < 100; i++) EXPECT_TRUE(batch.arrived(i)) << i;
}

TEST(ReadPlan, LongReadsAreCut) {
  Batch batch;
  batch.add(0, 3 * kBlock + 17, 10 * kBlock);
  const auto plans = plan_reads(batch.reads(), kBlock, 4 * kBlock);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].bytes, 4 * kBlock);
  EXPECT_EQ(plans[1].offset, 7 * kBlock);
  EXPECT_EQ(plans[2].bytes, 3 * kBlock);
  Batch::carry_out(plans);
  EXPECT_TRUE(batch.arrived(0));
}

RC_GTEST_PROP(ReadPlan, AnyBatchArrives, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const size_t max_bytes = kBlock << *rc::gen::inRange(0, 5);
  Batch batch;
  const int n = *rc::gen::inRange(1, 40);
  for (int i = 0; i < n; i++) {
    const size_t longest = random.below(2) == 0 ? 700 : 9 * kBlock;
    batch.add(static_cast<int32_t>(random.below(2)), random.below(60 * kBlock), 1 + random.below(longest));
  }
  const auto plans = plan_reads(batch.reads(), kBlock, max_bytes);
  std::vector<size_t> wanted_bytes(batch.reads().size());
  for (size_t p = 0; p < plans.size(); p++) {
    const PlannedRead& plan = plans[p];
    RC_ASSERT(plan.offset % kBlock == 0u);
    RC_ASSERT(plan.bytes % kBlock == 0u);
    RC_ASSERT(plan.bytes <= max_bytes);
    RC_ASSERT(bytes_of(plan) == plan.bytes);
    RC_ASSERT(plan.needed_end > plan.offset);
    RC_ASSERT(plan.needed_end <= plan.offset + plan.bytes);
    for (const iovec& segment : plan.into) RC_ASSERT(segment.iov_len % kBlock == 0u);
    for (const BlockRead& wanted : plan.wanted) wanted_bytes[wanted.tag] += wanted.bytes;
    if (p == 0 || plan.file != plans[p - 1].file) continue;
    RC_ASSERT(plan.file >= plans[p - 1].file);
    RC_ASSERT(plan.offset >= plans[p - 1].offset);
  }
  Batch::carry_out(plans);
  for (size_t i = 0; i < batch.reads().size(); i++) {
    RC_ASSERT(wanted_bytes[i] == batch.reads()[i].bytes);
    RC_ASSERT(batch.arrived(i));
    RC_ASSERT(batch.unharmed_behind(i));
  }
}

}  // namespace
}  // namespace strata
