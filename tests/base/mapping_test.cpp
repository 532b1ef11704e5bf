// Goal: a mapping outlives the loss of its file's pages, and every other SIGBUS does what it did without us.
#include "base/mapping.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"
#include "support/golden.h"

namespace strata {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

void write_file(const std::string& path, size_t n_bytes) {
  std::ofstream(path, std::ios::binary) << std::string(n_bytes, 'x');
}

std::unique_ptr<Mapping> map(const std::string& path) {
  auto file = real_file_system().open(path);
  if (!file.ok()) return nullptr;
  auto mapping = (*file)->map();
  return mapping.ok() ? std::move(mapping).value() : nullptr;
}

// A read the compiler can't drop.
std::byte touch(std::span<const std::byte> bytes, size_t at) {
  return *static_cast<const volatile std::byte*>(bytes.data() + at);
}

constexpr std::byte kX{'x'};
constexpr std::byte kZero{0};

TEST(MappingTest, ShowsTheFileAfterItWasClosed) {
  const test::TempDir dir;
  write_file(dir.file("f"), 3 * kPage + 5);
  const auto mapping = map(dir.file("f"));
  ASSERT_NE(mapping, nullptr);
  ASSERT_EQ(mapping->bytes().size(), 3 * kPage + 5);
  for (const std::byte byte : mapping->bytes()) ASSERT_EQ(byte, kX);
  EXPECT_FALSE(mapping->failed());
}

// A hint may name any bytes inside, whatever pages they begin and end in.
TEST(MappingTest, AskingForBytesChangesNothing) {
  const test::TempDir dir;
  const size_t size = 4 * kPage + 5;
  write_file(dir.file("f"), size);
  const auto mapping = map(dir.file("f"));
  ASSERT_NE(mapping, nullptr);
  for (const size_t offset : {size_t{0}, size_t{1}, kPage - 1, kPage, size - 1}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size - offset}) mapping->will_need(offset, bytes);
  }
  EXPECT_EQ(mapping->bytes()[size - 1], kX);
  EXPECT_FALSE(mapping->failed());
}

TEST(MappingTest, AnEmptyFileIsAnEmptyMapping) {
  const test::TempDir dir;
  write_file(dir.file("f"), 0);
  const auto mapping = map(dir.file("f"));
  ASSERT_NE(mapping, nullptr);
  EXPECT_TRUE(mapping->bytes().empty());
  EXPECT_FALSE(mapping->failed());
}

TEST(MappingTest, WhatCannotBeMappedIsAnError) {
  const auto mapping = map_file(-1, kPage, "no-such-descriptor");
  ASSERT_FALSE(mapping.ok());
  EXPECT_NE(mapping.error().message.find("no-such-descriptor"), std::string::npos);
  const test::TempDir dir;
  write_file(dir.file("f"), 1);
  const int fd = open(dir.file("f").c_str(), O_RDONLY);
  EXPECT_EQ(map_file(fd, uint64_t{1} << 62, "f").error().code, ErrorCode::kNoMemory);
  close(fd);
}

TEST(MappingTest, LostPagesReadAsZerosAndMarkOnlyTheirMapping) {
  const test::TempDir dir;
  write_file(dir.file("lost"), 4 * kPage + 100);
  write_file(dir.file("kept"), 4 * kPage);
  const auto before = map(dir.file("kept"));
  const auto lost = map(dir.file("lost"));
  const auto after = map(dir.file("kept"));
  ASSERT_EQ(truncate(dir.file("lost").c_str(), static_cast<off_t>(kPage)), 0);
  EXPECT_EQ(touch(lost->bytes(), kPage - 1), kX);
  EXPECT_FALSE(lost->failed());
  EXPECT_EQ(touch(lost->bytes(), 2 * kPage + 7), kZero);
  EXPECT_TRUE(lost->failed());
  // Wide loads may reach beyond the last byte, within its page.
  EXPECT_EQ(touch({lost->bytes().data(), 5 * kPage}, 4 * kPage + 100), kZero);
  for (size_t i = kPage; i < lost->bytes().size(); ++i) ASSERT_EQ(touch(lost->bytes(), i), kZero) << i;
  EXPECT_EQ(touch(lost->bytes(), 0), kX);
  for (const auto* mapping : {before.get(), after.get()}) {
    EXPECT_EQ(touch(mapping->bytes(), 4 * kPage - 1), kX);
    EXPECT_FALSE(mapping->failed());
  }
}

TEST(MappingTest, TheMarkIsForGoodEvenIfTheFileGrowsAgain) {
  const test::TempDir dir;
  write_file(dir.file("f"), 2 * kPage);
  const auto mapping = map(dir.file("f"));
  ASSERT_EQ(truncate(dir.file("f").c_str(), 0), 0);
  EXPECT_EQ(touch(mapping->bytes(), 0), kZero);
  write_file(dir.file("f"), 2 * kPage);
  EXPECT_TRUE(mapping->failed());
  EXPECT_FALSE(map(dir.file("f"))->failed());  // a mapping of its own
}

TEST(MappingTest, AReusedPlaceInTheRegistryStartsUnmarked) {
  const test::TempDir dir;
  for (int round = 0; round < 20; ++round) {
    write_file(dir.file("f"), kPage);
    const auto mapping = map(dir.file("f"));
    EXPECT_FALSE(mapping->failed());
    ASSERT_EQ(truncate(dir.file("f").c_str(), 0), 0);
    EXPECT_EQ(touch(mapping->bytes(), 0), kZero);
    EXPECT_TRUE(mapping->failed());
  }
}

TEST(MappingTest, ThreadsMapLosePagesAndUnmapAtOnce) {
  const test::TempDir dir;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const std::string path = dir.file(std::to_string(thread));
      Random random(static_cast<uint64_t>(thread));
      for (int round = 0; round < 100; ++round) {
        const size_t pages = 1 + random.below(8);
        write_file(path, pages * kPage);
        const auto mapping = map(path);
        const bool lose = random.below(2) == 0;
        if (lose && truncate(path.c_str(), 0) != 0) ++wrong;
        const size_t at = random.below(pages * kPage);
        if (touch(mapping->bytes(), at) != (lose ? kZero : kX) || mapping->failed() != lose) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MappingTest, SeveralThreadsTouchOneLostPage) {
  const test::TempDir dir;
  write_file(dir.file("f"), 64 * kPage);
  const auto mapping = map(dir.file("f"));
  ASSERT_EQ(truncate(dir.file("f").c_str(), 0), 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (size_t page = 0; page < 64; ++page) {
        if (touch(mapping->bytes(), page * kPage) != kZero || !mapping->failed()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The previous action is what stood when the first mapping was made, so each of these needs a process of its own.
class ForeignSigbusDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Installs `handler` first, then ours by mapping a file; a lost page of it must still be survived.
  void guard_after(void (*handler)(int)) {
    signal(SIGBUS, handler);
    write_file(dir_.file("ours"), kPage);
    ours_ = map(dir_.file("ours"));
    if (truncate(dir_.file("ours").c_str(), 0) != 0 || touch(ours_->bytes(), 0) != kZero) std::_Exit(99);
  }
  // A lost page in a mapping that is not ours.
  void fault_elsewhere() {
    write_file(dir_.file("foreign"), kPage);
    const int fd = open(dir_.file("foreign").c_str(), O_RDONLY);
    const void* address = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED || truncate(dir_.file("foreign").c_str(), 0) != 0) std::_Exit(98);
    touch({static_cast<const std::byte*>(address), kPage}, 0);
  }

  test::TempDir dir_;
  std::unique_ptr<Mapping> ours_;
};

TEST_F(ForeignSigbusDeathTest, AFaultElsewhereStillKills) {
  const auto die = [this] {
    guard_after(SIG_DFL);
    fault_elsewhere();
    std::_Exit(0);
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(ForeignSigbusDeathTest, AFaultElsewhereCannotBeIgnored) {
  const auto die = [this] {
    guard_after(SIG_IGN);
    fault_elsewhere();
    std::_Exit(0);
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(ForeignSigbusDeathTest, ASentSignalKillsOrIsIgnoredAsBefore) {
  const auto die = [this] {
    guard_after(SIG_DFL);
    raise(SIGBUS);
    std::_Exit(0);
  };
  const auto ignore = [this] {
    guard_after(SIG_IGN);
    raise(SIGBUS);
    std::_Exit(7);
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(ignore(), testing::ExitedWithCode(7), "");
}

TEST_F(ForeignSigbusDeathTest, AnEarlierHandlerGetsWhatIsNotOurs) {
  const auto handled = [this] {
    guard_after([](int) { std::_Exit(42); });
    fault_elsewhere();
    std::_Exit(0);
  };
  EXPECT_EXIT(handled(), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace strata
