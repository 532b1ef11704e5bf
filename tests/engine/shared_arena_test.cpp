// Goal: with --shared-expert-arena engines compute the same tokens from one copy of the experts, say what they wait
// for, and find bytes that were changed. In this process, and as the program.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/shared_file.h"
#include "cli/models.h"
#include "cli/program.h"
#include "engine/sim_support.h"
#include "experts/shared_arena/header.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using testing::HasSubstr;
using testing::Not;

// Greedy tokens and the checksum of the experts, with the counters at the end of stderr.
Outcome run(std::vector<std::string> more) {
  std::vector<std::string> args = {"run",    demo_model(), "-p",        "Once upon a time", "--temp", "0",
                                   "-n",     "24",         "--threads", "2",                "--stats",
                                   "--verify-arena"};
  args.insert(args.end(), more.begin(), more.end());
  Outcome outcome = strata(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome;
}

std::string checksum_of(const Outcome& outcome) {
  const std::string word = ": checksum ";
  const size_t at = outcome.err.find(word);
  return at == std::string::npos ? "none" : outcome.err.substr(at + word.size(), 16);
}

bool read_experts(const Outcome& outcome) { return outcome.err.find("\nfile_reads ") != std::string::npos; }

TEST(SharedArenaProgram, TokensAndChecksumAreTheSameHoweverItStarts) {
  const TempDir folder("/dev/shm");
  const std::vector<std::string> shared = {"--shared-expert-arena", folder.file("arena")};
  const Outcome alone = run({"--experts", "arena"});
  EXPECT_TRUE(read_experts(alone));
  EXPECT_EQ(checksum_of(alone).size(), 16u);
  const auto expect_same = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.out, alone.out);
    EXPECT_EQ(checksum_of(outcome), checksum_of(alone)) << outcome.err;
  };
  const Outcome loading = run(shared);
  EXPECT_TRUE(read_experts(loading));
  expect_same(loading);
  const Outcome attached = run(shared);
  EXPECT_FALSE(read_experts(attached)) << attached.err;
  expect_same(attached);
  for (const char* place : {"resident", "mapped", "direct"}) expect_same(run({"--experts", place}));

  // Two that start at the same time load once.
  std::filesystem::remove(folder.file("arena"));
  Outcome first, second;
  std::thread other([&] { second = run(shared); });
  first = run(shared);
  other.join();
  EXPECT_NE(read_experts(first), read_experts(second));
  expect_same(first);
  expect_same(second);
}

TEST(SharedArenaProgram, ChangedBytesAreFoundByTheChecksum) {
  const TempDir folder("/dev/shm");
  const Outcome loading = run({"--shared-expert-arena", folder.file("arena")});
  {
    auto file = *SharedFile::open(folder.file("arena")).value();
    struct stat before {};
    ASSERT_EQ(::stat(folder.file("arena").c_str(), &before), 0);
    const auto page = file.map_writable(2 * kSharedPage, kSharedPage).value();
    page->writable_bytes()[1000] ^= std::byte{1};
    // As a broken memory would: nothing tells when it was.
    const timespec times[] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, folder.file("arena").c_str(), times, 0), 0);
  }
  const Outcome found = strata({"run", demo_model(), "-p", "Once", "--shared-expert-arena", folder.file("arena"),
                                "--verify-arena", "-n", "1"});
  EXPECT_TRUE(refused(found, 1, checksum_of(loading) + " when they were loaded"));
  // The variable stands for the flag.
  const Outcome by_variable = call({.args = {"run", demo_model(), "-p", "Once", "-n", "1", "--shared-expert-arena",
                                             folder.file("arena")},
                                    .environment = {{"STRATA_VERIFY_ARENA", "1"}}});
  EXPECT_TRUE(refused(by_variable, 1, "remove it and start again"));
  std::filesystem::remove(folder.file("arena"));
  EXPECT_EQ(checksum_of(run({"--shared-expert-arena", folder.file("arena")})), checksum_of(loading));
}

TEST(SharedArenaProgram, RefusalsAreOneLine) {
  const TempDir folder("/dev/shm");
  const TempDir drive;
  const auto with = [](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", model, "-p", "Once", "-n", "1"});
    return strata(more);
  };
  const std::string file = folder.file("arena");
  EXPECT_TRUE(refused(with(demo_model(), {"--shared-expert-arena", drive.file("arena")}), 2, "it is on a drive"));
  EXPECT_TRUE(refused(with(demo_model(), {"--shared-expert-arena", "/dev/shm"}), 2, "it is a directory"));
  EXPECT_TRUE(refused(with(demo_model(), {"--shared-expert-arena", file, "--experts", "mapped"}), 2,
                      "which --experts mapped contradicts"));
  EXPECT_TRUE(refused(with(demo_model(), {"--shared-expert-arena", file, "--mmap-experts"}), 2, "contradicts"));
  EXPECT_FALSE(std::filesystem::exists(file));

  // In use, and then no more.
  {
    const auto model = gguf::Model::open(tiny_model(), real_file_system()).value();
    EngineConfig config = test_config();
    config.experts = engine::ExpertPlace::kArena;
    config.shared_arena = file;
    Stats stats;
    const auto engine = Engine::open(*model, config, stats);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    EXPECT_TRUE(refused(with(demo_model(), {"--shared-expert-arena", file}), 2, "an engine is using it"));
  }
  const Outcome replaced = with(demo_model(), {"--shared-expert-arena", file});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_THAT(replaced.err, HasSubstr("holds another model's experts, of another size; no engine used it"));
}

// Prompts stream out of the arena, page-locked or not, its own memory or the file's.
TEST(SharedArenaEngine, StreamsTheSameBitsOutOfEveryArena) {
  const TempDir folder("/dev/shm");
  const GoldenModel golden = load_arch_golden("qwen3moe");
  const auto bits_of = [&](const std::string& shared, const std::string& lock) {
    EngineConfig config = small_sim_config(n_experts(golden) / 4, 1024, 7);
    config.device = "sim:256MiB/seed=3" + lock;
    config.max_sequences = 3;
    config.stream_rows = 5;
    config.experts = engine::ExpertPlace::kArena;
    config.shared_arena = shared;
    std::vector<float> bits;
    Stats stats;
    EXPECT_GE(worst_difference(golden, config, Cut::kChunksOf7, &bits, &stats), 0);
    EXPECT_GT(stats.get(Counter::kStreamedExperts), 0);
    EXPECT_EQ(stats.get(Counter::kDeviceAllocations), 0);
    return bits;
  };
  const std::vector<float> bits = bits_of("", "");
  EXPECT_EQ(bits_of("", "/lock=off"), bits);
  EXPECT_EQ(bits_of(folder.file("arena"), ""), bits) << "loading";
  EXPECT_EQ(bits_of(folder.file("arena"), ""), bits) << "attached";
  EXPECT_EQ(bits_of(folder.file("arena"), "/lock=off"), bits);
}

TEST(SharedArenaProgram, ThePlanCountsTheFileOnce) {
  const TempDir folder("/dev/shm");
  const std::vector<std::string> args = {"plan", demo_model(), "--shared-expert-arena", folder.file("arena")};
  const auto with_ram = [&](const char* gib) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--ram-gib", gib});
    return strata(all);
  };
  const Outcome fits = with_ram("1");
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("the arena is the file " + folder.file("arena")));
  EXPECT_TRUE(refused(with_ram("0.05"), 1, "do not fit into the"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("arena"))) << "a plan makes nothing";
}

// With an arena that is there, memory that is in use is the memory that is needed.
TEST(SharedArenaEngine, WhatTheArenaHasCountsAsRoomForIt) {
  const TempDir folder("/dev/shm");
  auto file = *SharedFile::create(folder.file("arena")).value();
  constexpr uint64_t kBytes = 256 * kMiB;
  ASSERT_TRUE(file.allocate(0, kBytes).ok());
  EngineConfig config = test_config();
  config.ram_bytes = 0;
  config.ram_headroom_bytes = 0;
  // Other programs take and free memory all the time, but seldom much between two looks.
  double nearest = 0;
  for (int i = 0; i < 20; i++) {
    config.shared_arena.clear();
    const auto without = static_cast<double>(engine::usable_ram(config).value());
    config.shared_arena = folder.file("arena");
    const auto more = static_cast<double>(engine::usable_ram(config).value()) - without;
    if (std::abs(more - static_cast<double>(kBytes)) < std::abs(nearest - static_cast<double>(kBytes))) nearest = more;
  }
  EXPECT_NEAR(nearest, static_cast<double>(kBytes), static_cast<double>(kBytes) / 8);
  config.ram_bytes = kGiB;
  EXPECT_EQ(engine::usable_ram(config).value(), kGiB);
}

TEST(SharedArenaEngine, SaysWhomItWaitsForAndWhatCameOfIt) {
  const TempDir folder("/dev/shm");
  auto holder = *SharedFile::create(folder.file("arena")).value();
  ASSERT_TRUE(holder.try_lock(experts::shared_arena::kFillByte, SharedFile::Lock::kExclusive).value());
  ASSERT_TRUE(holder.allocate(0, kSharedPage).ok());
  auto page = holder.map_writable(0, kSharedPage).value();
  const experts::shared_arena::HeaderWriter header(page->writable_bytes(), {}, 4711);
  std::vector<std::string> lines;
  EngineConfig config = test_config();
  config.experts = engine::ExpertPlace::kArena;
  config.shared_arena = folder.file("arena");
  config.notice = [&](const std::string& line) {
    lines.push_back(line);
    EXPECT_TRUE(holder.unlock(experts::shared_arena::kFillByte).ok());
  };
  const auto model = gguf::Model::open(tiny_model(), real_file_system()).value();
  Stats stats;
  const auto engine = Engine::open(*model, config, stats);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "shared arena " + folder.file("arena") + ": engine 4711 is loading it, waiting");
  EXPECT_THAT(lines[1], HasSubstr("is replaced"));
  EXPECT_THAT(lines[2], HasSubstr(": loaded "));
}

// The bits of the private arena, on the host and on a device with memory of its own, whose cache is filled from it.
TEST(SharedArenaEngine, GivesTheBitsOfThePrivateArena) {
  for (const char* arch : {"qwen3moe", "gpt-oss", "qwen3next"}) {
    const GoldenModel golden = load_arch_golden(arch);
    std::vector<float> expected;
    ASSERT_GE(worst_difference(golden, test_config(), Cut::kChunksOf7, &expected), 0);
    const TempDir folder("/dev/shm");
    for (const char* device : {"cpu", "sim:256MiB/seed=5"}) {
      EngineConfig config = test_config();
      config.device = device;
      if (config.device != "cpu") config.expert_cache = 4;
      config.cache_min_slots = 1;
      config.experts = engine::ExpertPlace::kArena;
      config.shared_arena = folder.file("arena");
      std::vector<float> found;
      Stats stats;
      ASSERT_GE(worst_difference(golden, config, Cut::kChunksOf7, &found, &stats), 0);
      EXPECT_EQ(found, expected) << arch << " on " << device;
      EXPECT_GT(stats.get(Counter::kArenaLeases), 0);
      EXPECT_EQ(stats.get(Counter::kFileReads) > 0, config.device == "cpu") << "the first loads";
    }
  }
}

}  // namespace
}  // namespace strata::test
