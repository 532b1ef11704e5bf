#include "base/file_sim.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"

namespace strata {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(MemoryFileSystemTest, FilesAreReadAndMapped) {
  MemoryFileSystem files;
  files.add_file("/models/m.gguf", bytes_of("0123456789"));
  const auto file = std::move(files.open("/models/m.gguf")).value();
  EXPECT_EQ(file->path(), "/models/m.gguf");
  EXPECT_EQ(file->size(), 10u);
  std::vector<std::byte> buffer(4);
  EXPECT_EQ(*file->read_some(8, buffer), 2u);
  EXPECT_EQ(*file->read_some(10, buffer), 0u);
  EXPECT_EQ(*file->read_some(UINT64_MAX, buffer), 0u);
  EXPECT_TRUE(file->read_exact(6, buffer).ok());
  EXPECT_EQ(text_of(buffer), "6789");
  EXPECT_EQ(file->read_exact(7, buffer).error().code, ErrorCode::kIo);
  EXPECT_EQ(text_of((*file->map())->bytes()), "0123456789");
}

TEST(MemoryFileSystemTest, PathsImplyDirectories) {
  MemoryFileSystem files;
  files.add_file("/a/b/x", {});
  files.add_file("/a/c", {});
  files.add_file("/a/b/y", {});
  files.add_file("/ab", {});
  files.add_file("relative/z", {});
  EXPECT_EQ(*files.list("/a"), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(*files.list("/a/b/"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(*files.list("/"), (std::vector<std::string>{"a", "ab"}));
  EXPECT_EQ(*files.list("relative"), (std::vector<std::string>{"z"}));
  EXPECT_EQ(files.list("/a/c").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(files.list("/none").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(files.is_directory("/a/b"));
  EXPECT_FALSE(files.is_directory("/a/c"));
  EXPECT_FALSE(files.is_directory(""));
  EXPECT_TRUE(files.exists("/a"));
  EXPECT_TRUE(files.exists("/ab"));
  EXPECT_FALSE(files.exists("/abc"));
  EXPECT_EQ(files.open("/a").error().code, ErrorCode::kBadInput);
  EXPECT_EQ(files.open("/none").error().code, ErrorCode::kNotFound);
}

TEST(MemoryFileSystemTest, AReplacedFileStaysForThoseWhoHoldIt) {
  std::unique_ptr<File> old_file;
  std::unique_ptr<Mapping> old_mapping;
  {
    MemoryFileSystem files;
    files.add_file("f", bytes_of("old"));
    old_file = std::move(files.open("f")).value();
    old_mapping = std::move(old_file->map()).value();
    files.add_file("f", bytes_of("newer"));
    EXPECT_EQ((*files.open("f"))->size(), 5u);
  }
  std::vector<std::byte> buffer(3);
  EXPECT_TRUE(old_file->read_exact(0, buffer).ok());
  EXPECT_EQ(text_of(buffer), "old");
  EXPECT_EQ(text_of(old_mapping->bytes()), "old");
}

class FaultyFileSystemTest : public testing::Test {
 protected:
  FaultyFileSystemTest() {
    for (size_t i = 0; i < 1000; ++i) content_ += static_cast<char>('a' + i % 23);
    files_.add_file("f", bytes_of(content_));
  }
  FaultyFileSystem faulty(FaultPlan plan) { return FaultyFileSystem(files_, clock_, std::move(plan)); }

  std::string content_;
  MemoryFileSystem files_;
  ManualClock clock_;
};

TEST_F(FaultyFileSystemTest, WithoutAPlanNothingHappens) {
  FaultyFileSystem file_system = faulty({});
  const auto file = std::move(file_system.open("f")).value();
  std::vector<std::byte> buffer(1000);
  EXPECT_TRUE(file->read_exact(0, buffer).ok());
  EXPECT_EQ(text_of(buffer), content_);
  EXPECT_EQ(text_of((*file->map())->bytes()), content_);
  EXPECT_EQ(file_system.n_reads(), 1u);
  for (size_t fault = 0; fault < kFaults; ++fault) EXPECT_EQ(file_system.n_injected(static_cast<Fault>(fault)), 0u);
  EXPECT_TRUE(file_system.exists("f"));
  EXPECT_FALSE(file_system.is_directory("f"));
  EXPECT_EQ(file_system.open("none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file_system.list("none").error().code, ErrorCode::kNotFound);
}

TEST_F(FaultyFileSystemTest, TheNthReadSuffersWhatThePlanSays) {
  FaultyFileSystem file_system = faulty({.at = {{1, Fault::kIoError},
                                                {2, Fault::kInterrupted},
                                                {3, Fault::kShortRead},
                                                {4, Fault::kStall}},
                                         .stall_ns = 777});
  const auto file = std::move(file_system.open("f")).value();
  std::vector<std::byte> buffer(100);
  EXPECT_EQ(*file->read_some(0, buffer), 100u);
  const auto failed = file->read_some(50, buffer);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_NE(failed.error().message.find("100 bytes at offset 50 of f"), std::string::npos);
  EXPECT_EQ(file->read_some(0, buffer).error().code, ErrorCode::kInterrupted);
  const auto shortened = file->read_some(0, buffer);
  EXPECT_GE(*shortened, 1u);
  EXPECT_LT(*shortened, 100u);
  EXPECT_EQ(clock_.now_ns(), 0);
  EXPECT_EQ(*file->read_some(0, buffer), 100u);
  EXPECT_EQ(clock_.now_ns(), 777);
  EXPECT_EQ(*file->read_some(0, buffer), 100u);
  EXPECT_EQ(file_system.n_reads(), 6u);
  for (size_t fault = 0; fault < kFaults; ++fault) EXPECT_EQ(file_system.n_injected(static_cast<Fault>(fault)), 1u);
}

TEST_F(FaultyFileSystemTest, AReadOfOneByteCannotBeShort) {
  FaultyFileSystem file_system = faulty({.at = {{0, Fault::kShortRead}}});
  std::vector<std::byte> buffer(1);
  EXPECT_EQ(*(*file_system.open("f"))->read_some(0, buffer), 1u);
  EXPECT_EQ(file_system.n_injected(Fault::kShortRead), 0u);
}

TEST_F(FaultyFileSystemTest, ReadExactGetsThroughInterruptionsAndShortReads) {
  FaultPlan plan{.seed = 11};
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.4;
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.4;
  FaultyFileSystem file_system = faulty(plan);
  const auto file = std::move(file_system.open("f")).value();
  Random random(12);
  for (int i = 0; i < 300; ++i) {
    const size_t offset = random.below(1000);
    std::vector<std::byte> buffer(random.below(1001 - offset));
    ASSERT_TRUE(file->read_exact(offset, buffer).ok());
    ASSERT_EQ(text_of(buffer), content_.substr(offset, buffer.size()));
  }
  EXPECT_GT(file_system.n_injected(Fault::kInterrupted), 100u);
  EXPECT_GT(file_system.n_injected(Fault::kShortRead), 100u);
  EXPECT_EQ(file_system.n_injected(Fault::kIoError), 0u);
}

TEST_F(FaultyFileSystemTest, EndlessInterruptionsEndInAnError) {
  FaultPlan plan;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 1;
  FaultyFileSystem file_system = faulty(plan);
  std::vector<std::byte> buffer(10);
  const Status status = (*file_system.open("f"))->read_exact(0, buffer);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find("interrupted again and again"), std::string::npos);
}

TEST_F(FaultyFileSystemTest, OneSeedGivesTheSameFaultsAndAnotherGivesOthers) {
  const auto outcomes = [this](uint64_t seed) {
    FaultPlan plan{.seed = seed};
    plan.probability[static_cast<size_t>(Fault::kIoError)] = 0.5;
    FaultyFileSystem file_system = faulty(plan);
    const auto file = std::move(file_system.open("f")).value();
    std::vector<std::byte> buffer(10);
    std::string text;
    for (int i = 0; i < 200; ++i) text += file->read_some(0, buffer).ok() ? '.' : 'E';
    return text;
  };
  EXPECT_EQ(outcomes(1), outcomes(1));
  EXPECT_NE(outcomes(1), outcomes(2));
}

TEST_F(FaultyFileSystemTest, ProbabilitiesHoldAcrossThreads) {
  FaultPlan plan{.seed = 5};
  plan.probability[static_cast<size_t>(Fault::kIoError)] = 0.25;
  FaultyFileSystem file_system = faulty(plan);
  std::atomic<uint64_t> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto file = std::move(file_system.open("f")).value();
      std::vector<std::byte> buffer(10);
      for (int n = 0; n < 1000; ++n) failures += !file->read_some(0, buffer).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(file_system.n_reads(), 4000u);
  EXPECT_EQ(file_system.n_injected(Fault::kIoError), failures);
  EXPECT_NEAR(static_cast<double>(failures), 1000, 6 * 27.4);  // six standard deviations
}

}  // namespace
}  // namespace strata
