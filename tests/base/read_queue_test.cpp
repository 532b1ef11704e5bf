// The read queue on simulated files that fail in every way, and on real ones with and without direct reads.
// Faults M18 (an error names file and offset, a slow drive is no hang) and their neighbours.
#include "base/read_queue.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/asking_files.h"
#include "base/file_sim.h"
#include "base/random.h"
#include "base/stepped_clock.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using testing::HasSubstr;
using Urgency = ReadQueue::Urgency;

constexpr size_t kBlock = 4096;
constexpr int64_t kNsPerS = 1'000'000'000;

std::byte content(uint64_t position) { return static_cast<std::byte>((position * 131 + position / 251) & 0xff); }
std::vector<std::byte> file_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; i++) bytes[i] = content(i);
  return bytes;
}

constexpr size_t kRealBytes = 9'000'001;

std::string write_file(const std::string& path, size_t n) {
  const std::vector<std::byte> bytes = file_bytes(n);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(n));
  return path;
}
std::vector<std::string> write_two_files(const std::string& folder) {
  return {write_file(folder + "/a", kRealBytes), write_file(folder + "/b", kRealBytes)};
}

// How jobs ended; waits for them.
class Jobs final : public ReadSink {
 public:
  void read_ended(uint64_t tag, const Status& status, bool released) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_TRUE(ended_.emplace(tag, status).second) << "tag " << tag << " ended twice";
    if (released) released_.insert(tag);
    order_.push_back(tag);
    changed_.notify_all();
  }
  void read_released(uint64_t tag) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_TRUE(ended_.contains(tag)) << "tag " << tag << " was released before it ended";
    EXPECT_TRUE(released_.insert(tag).second) << "tag " << tag << " was released twice";
    changed_.notify_all();
  }
  Status wait(uint64_t tag) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ended_.contains(tag); });
    return ended_.at(tag);
  }
  void wait_released(uint64_t tag) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return released_.contains(tag); });
  }
  bool ended(uint64_t tag) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_.contains(tag);
  }
  bool released(uint64_t tag) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return released_.contains(tag);
  }
  std::vector<uint64_t> order() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Status> ended_;
  std::set<uint64_t> released_;
  std::vector<uint64_t> order_;
};

// Reads with aligned memory of their own.
class Requests {
 public:
  BlockRead make(uint64_t tag, uint64_t offset, size_t bytes, int32_t file = 0) {
    const size_t span = block_span(offset, bytes, kBlock);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kBlock, span));
    std::memset(memory, 0xee, span);
    memory_.emplace_back(memory, std::free);
    reads_.push_back({tag, file, offset, bytes, memory});
    return reads_.back();
  }
  const std::vector<BlockRead>& all() const { return reads_; }
  static bool arrived(const BlockRead& read) {
    for (size_t b = 0; b < read.bytes; b++) {
      if (read.blocks[read.offset % kBlock + b] != content(read.offset + b)) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> memory_;
  std::vector<BlockRead> reads_;
};

// A queue over one file in memory behind a layer that spoils reads.
class ReadQueueTest : public testing::Test {
 protected:
  ReadQueueTest() { memory_.add_file("/m.gguf", file_bytes(kFileBytes)); }

  std::unique_ptr<ReadQueue> open(FileSystem& files, int depth = 4, int64_t timeout_ns = 600 * kNsPerS) {
    auto queue = ReadQueue::open({"/m.gguf"}, {files, clock_, stats_, depth, timeout_ns}, jobs_);
    EXPECT_TRUE(queue.ok());
    return std::move(queue).value();
  }
  void expect_error(const Status& status, std::initializer_list<const char*> pieces) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    for (const char* piece : pieces) EXPECT_THAT(status.error().message, HasSubstr(piece));
  }

  static constexpr size_t kFileBytes = 100 * kBlock + 1234;
  MemoryFileSystem memory_;
  SteppedClock clock_;
  Stats stats_;
  Jobs jobs_;
  Requests requests_;
};

TEST_F(ReadQueueTest, JobsOfSeveralRangesArriveWhole) {
  const auto queue = open(memory_);
  EXPECT_THAT(queue->report(), HasSubstr("read by 4 threads, through the page cache"));
  const std::vector<BlockRead> batch = {requests_.make(7, 50'000, 9000), requests_.make(7, 10, 5),
                                        requests_.make(8, 59'000, 100), requests_.make(7, 58'999, 1)};
  queue->submit(batch, Urgency::kNeeded);
  EXPECT_TRUE(jobs_.wait(7).ok());
  EXPECT_TRUE(jobs_.wait(8).ok());
  for (const BlockRead& read : batch) EXPECT_TRUE(Requests::arrived(read));
  EXPECT_EQ(stats_.get(Counter::kFileReads), 2);  // neighbours as one
  EXPECT_EQ(stats_.get(Counter::kFileReadBytes), static_cast<int64_t>(4 * kBlock));
}

TEST_F(ReadQueueTest, TheLastBytesOfAFileAreEnough) {
  const auto queue = open(memory_);
  const std::vector<BlockRead> batch = {requests_.make(1, kFileBytes - 10, 10)};
  queue->submit(batch, Urgency::kNeeded);
  EXPECT_TRUE(jobs_.wait(1).ok());
  EXPECT_TRUE(Requests::arrived(batch[0]));
}

TEST_F(ReadQueueTest, ShortAndInterruptedReadsGiveTheRightBytes) {
  FaultPlan plan{.seed = 5};
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.4;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.3;
  FaultyFileSystem files(memory_, clock_, plan);
  const auto queue = open(files);
  Random random(1);
  std::vector<BlockRead> batch;
  for (uint64_t tag = 0; tag < 40; tag++) {
    batch.push_back(requests_.make(tag, random.below(90 * kBlock), 1 + random.below(3 * kBlock)));
  }
  queue->submit(batch, Urgency::kLikely);
  for (uint64_t tag = 0; tag < 40; tag++) EXPECT_TRUE(jobs_.wait(tag).ok());
  for (const BlockRead& read : batch) EXPECT_TRUE(Requests::arrived(read));
  EXPECT_GT(files.n_injected(Fault::kShortRead), 5u);
  EXPECT_GT(files.n_injected(Fault::kInterrupted), 5u);
}

TEST_F(ReadQueueTest, EndlessInterruptionsAreAnError) {
  FaultPlan plan;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 1;
  FaultyFileSystem files(memory_, clock_, plan);
  const auto queue = open(files);
  queue->submit(std::vector{requests_.make(1, 0, 10)}, Urgency::kNeeded);
  expect_error(jobs_.wait(1), {"/m.gguf", "offset 0", "interrupted again and again"});
}

// M18. The bad block belongs to one job; the one beside it, read together with it at first, gets its bytes.
TEST_F(ReadQueueTest, AnIoErrorIsOneJobsAlone) {
  AskingFiles files(memory_, [](uint64_t offset, size_t bytes) -> Status {
    if (offset <= 5 * kBlock && offset + bytes > 5 * kBlock) {
      return Error{ErrorCode::kIo, "cannot read at offset " + std::to_string(offset) + " of /m.gguf: bad block"};
    }
    return {};
  });
  const auto queue = open(files);
  const std::vector<BlockRead> batch = {requests_.make(1, 4 * kBlock, kBlock), requests_.make(2, 5 * kBlock, kBlock),
                                        requests_.make(2, 9 * kBlock, kBlock), requests_.make(3, 6 * kBlock, 10)};
  queue->submit(batch, Urgency::kNeeded);
  EXPECT_TRUE(jobs_.wait(1).ok());
  expect_error(jobs_.wait(2), {"/m.gguf", "offset 20480"});
  EXPECT_TRUE(jobs_.wait(3).ok());
  EXPECT_TRUE(Requests::arrived(batch[0]));
  EXPECT_TRUE(Requests::arrived(batch[3]));
  EXPECT_TRUE(jobs_.released(2));
}

TEST_F(ReadQueueTest, AFileThatLostItsEndIsAnError) {
  const TempDir folder;
  const std::string path = write_file(folder.file("m.gguf"), kFileBytes);
  const auto queue = ReadQueue::open({path}, {real_file_system(), clock_, stats_}, jobs_).value();
  std::filesystem::resize_file(path, 10 * kBlock + 100);
  const std::vector<BlockRead> batch = {requests_.make(1, 10 * kBlock, 200), requests_.make(2, 10 * kBlock, 100)};
  queue->submit(batch, Urgency::kNeeded);
  expect_error(jobs_.wait(1), {path.c_str(), "offset 40960", "the file ends at"});
  EXPECT_TRUE(jobs_.wait(2).ok());
  EXPECT_TRUE(Requests::arrived(batch[1]));
}

TEST_F(ReadQueueTest, AStallIsWaitedFor) {
  FaultyFileSystem files(memory_, clock_, {.at = {{0, Fault::kStall}}, .stall_ns = 10 * kNsPerS});
  const auto queue = open(files);
  const std::vector<BlockRead> batch = {requests_.make(1, 0, 10)};
  queue->submit(batch, Urgency::kNeeded);
  clock_.wait_for_sleepers(1);
  clock_.advance_s(5);
  EXPECT_FALSE(jobs_.ended(1));
  clock_.advance_s(5);
  EXPECT_TRUE(jobs_.wait(1).ok());
  EXPECT_TRUE(Requests::arrived(batch[0]));
}

// The memory stays the system's until its read comes back.
TEST_F(ReadQueueTest, AReadThatTakesTooLongFailsAndIsReleasedLater) {
  FaultyFileSystem files(memory_, clock_, {.at = {{0, Fault::kStall}}, .stall_ns = 1000 * kNsPerS});
  const auto queue = open(files, 1);
  queue->submit(std::vector{requests_.make(1, 0, 10)}, Urgency::kNeeded);
  clock_.wait_for_sleepers(1);
  queue->submit(std::vector{requests_.make(2, kBlock, 10)}, Urgency::kNeeded);  // in line behind it
  clock_.advance_s(599);
  queue->submit(std::vector{requests_.make(3, 2 * kBlock, 10)}, Urgency::kNeeded);
  EXPECT_FALSE(jobs_.ended(1));
  clock_.advance_s(1);
  expect_error(jobs_.wait(1), {"/m.gguf", "offset 0", "no answer for 600 s", "--io-timeout-s"});
  expect_error(jobs_.wait(2), {"offset 4096", "no answer for 600 s"});
  jobs_.wait_released(2);  // it was never started
  EXPECT_FALSE(jobs_.released(1));
  EXPECT_FALSE(jobs_.ended(3));
  clock_.advance_s(400);
  jobs_.wait_released(1);
  EXPECT_TRUE(jobs_.wait(3).ok());
}

TEST_F(ReadQueueTest, NeverMoreThanTheDepthIsUnderWay) {
  std::atomic<int> under_way{0}, most{0};
  AskingFiles files(memory_, [&](uint64_t, size_t) -> Status {
    int seen = most.load();
    for (const int now = ++under_way; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    std::this_thread::yield();
    --under_way;
    return {};
  });
  const auto queue = open(files, 3);
  std::vector<BlockRead> batch;
  for (uint64_t tag = 0; tag < 48; tag++) batch.push_back(requests_.make(tag, tag * 2 * kBlock, 10));
  queue->submit(batch, Urgency::kNeeded);
  for (uint64_t tag = 0; tag < 48; tag++) EXPECT_TRUE(jobs_.wait(tag).ok());
  EXPECT_LE(most.load(), 3);
  EXPECT_EQ(stats_.get(Counter::kFileReads), 48);
}

// What is needed is read before what is only likely to be; a job can change sides while it is in line.
TEST_F(ReadQueueTest, NeededReadsGoFirst) {
  FaultyFileSystem files(memory_, clock_, {.at = {{0, Fault::kStall}}, .stall_ns = kNsPerS});
  const auto queue = open(files, 1);
  queue->submit(std::vector{requests_.make(0, 0, 10)}, Urgency::kNeeded);
  clock_.wait_for_sleepers(1);
  for (uint64_t tag = 1; tag <= 3; tag++) {
    queue->submit(std::vector{requests_.make(tag, tag * 2 * kBlock, 10)}, Urgency::kLikely);
  }
  queue->submit(std::vector{requests_.make(4, 8 * kBlock, 10)}, Urgency::kNeeded);
  queue->expedite(3);
  queue->expedite(99);
  clock_.advance_s(1);
  for (uint64_t tag = 0; tag <= 4; tag++) EXPECT_TRUE(jobs_.wait(tag).ok());
  EXPECT_EQ(jobs_.order(), (std::vector<uint64_t>{0, 4, 3, 1, 2}));
}

// However many reads may be under way, one that is only likely to be needed does not share the drive with one that is;
// of those that are under way, a job that becomes needed counts as such.
TEST_F(ReadQueueTest, LikelyReadsStandBackForNeededOnes) {
  std::atomic<bool> stalled[2] = {true, true};
  std::atomic<int> n_asked = 0;
  AskingFiles files(memory_, [&](uint64_t offset, size_t) -> Status {
    n_asked++;
    while (offset / (2 * kBlock) < 2 && stalled[offset / (2 * kBlock)]) std::this_thread::yield();
    return {};
  });
  const auto queue = open(files, 4);
  const auto submit = [&](uint64_t tag, Urgency urgency) {
    queue->submit(std::vector{requests_.make(tag, tag * 2 * kBlock, 10)}, urgency);
  };
  submit(0, Urgency::kNeeded);
  submit(1, Urgency::kLikely);
  submit(2, Urgency::kNeeded);
  EXPECT_TRUE(jobs_.wait(2).ok());
  EXPECT_EQ(n_asked, 2);
  stalled[0] = false;
  EXPECT_TRUE(jobs_.wait(0).ok());
  while (n_asked < 3) std::this_thread::yield();
  submit(3, Urgency::kLikely);
  EXPECT_TRUE(jobs_.wait(3).ok());  // beside another that is likely
  queue->expedite(1);
  submit(4, Urgency::kLikely);
  submit(5, Urgency::kNeeded);
  EXPECT_TRUE(jobs_.wait(5).ok());
  EXPECT_EQ(n_asked, 5);
  stalled[1] = false;
  EXPECT_TRUE(jobs_.wait(4).ok());
  EXPECT_EQ(jobs_.order(), (std::vector<uint64_t>{2, 0, 3, 5, 1, 4}));
}

TEST_F(ReadQueueTest, ClosingGivesUpWhatHasNotStarted) {
  FaultyFileSystem files(memory_, clock_, {.at = {{0, Fault::kStall}}, .stall_ns = kNsPerS});
  auto queue = open(files, 1);
  queue->submit(std::vector{requests_.make(0, 0, 10)}, Urgency::kNeeded);
  clock_.wait_for_sleepers(1);
  queue->submit(std::vector{requests_.make(1, 2 * kBlock, 10)}, Urgency::kLikely);
  std::thread closing([&] { queue.reset(); });
  const Status given_up = jobs_.wait(1);
  ASSERT_FALSE(given_up.ok());
  EXPECT_EQ(given_up.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(jobs_.ended(0));
  clock_.advance_s(1);
  closing.join();
  EXPECT_TRUE(jobs_.wait(0).ok());
  EXPECT_TRUE(jobs_.released(0));
}

TEST_F(ReadQueueTest, AFileThatIsNotThereIsAnError) {
  const auto queue = ReadQueue::open({"/m.gguf", "/none"}, {memory_, clock_, stats_}, jobs_);
  ASSERT_FALSE(queue.ok());
  EXPECT_EQ(queue.error().code, ErrorCode::kNotFound);
}

// Real files.

// Many odd ranges of two files, some at their ends.
void expect_right_bytes(const std::vector<std::string>& paths, const char* report) {
  Jobs jobs;
  Stats stats;
  Requests requests;
  const auto opened = ReadQueue::open(paths, {real_file_system(), real_clock(), stats}, jobs);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  ReadQueue& queue = **opened;
  EXPECT_THAT(queue.report(), HasSubstr(report));
  Random random(9);
  for (uint64_t tag = 0; tag < 60; tag++) {
    const size_t length = 1 + random.below(tag % 2 == 0 ? 100 : 3'000'000);
    const uint64_t offset = tag % 5 == 0 ? kRealBytes - length : random.below(kRealBytes - length);
    requests.make(tag, offset, length, static_cast<int32_t>(tag % 2));
  }
  queue.submit(std::span(requests.all()).first(30), Urgency::kNeeded);
  queue.submit(std::span(requests.all()).subspan(30), Urgency::kLikely);
  for (const BlockRead& read : requests.all()) {
    const Status status = jobs.wait(read.tag);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(Requests::arrived(read));
  }
}

TEST(ReadQueueFiles, DirectReadsOfADrive) {
  const TempDir folder;
  const std::vector<std::string> paths = write_two_files(folder.path());
  const auto direct = real_file_system().open_direct(paths[0]);
  if (!direct.ok()) GTEST_SKIP() << direct.error().message;
  EXPECT_GE((*direct)->read_alignment(), 4096u);
  expect_right_bytes(paths, ", past the page cache");
}

// In memory, where direct reads bring nothing.
TEST(ReadQueueFiles, FilesInMemoryAreReadThroughThePageCache) {
  const TempDir folder("/dev/shm");
  if (folder.path().empty()) GTEST_SKIP() << "no /dev/shm";
  const std::vector<std::string> paths = write_two_files(folder.path());
  const auto direct = real_file_system().open_direct(paths[0]);
  ASSERT_FALSE(direct.ok());
  EXPECT_EQ(direct.error().code, ErrorCode::kUnsupported);
  expect_right_bytes(paths, "through the page cache: ");
}

TEST(ReadQueueFiles, DirectOpensFailLikeOthers) {
  const TempDir folder;
  EXPECT_EQ(real_file_system().open_direct(folder.file("none")).error().code, ErrorCode::kNotFound);
}

// io_uring is forbidden to the thread that opens the queue, as containers do it.
TEST(ReadQueueFiles, ThreadsReadWhereIoUringIsForbidden) {
  const TempDir folder;
  const std::vector<std::string> paths = write_two_files(folder.path());
  std::thread forbidden([&] {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{4, filter};
    ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    expect_right_bytes(paths, "read by 16 threads (io_uring is not to be had: Operation not permitted)");
  });
  forbidden.join();
}

}  // namespace
}  // namespace strata::test
