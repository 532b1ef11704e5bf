// Goal: what the benchmarks are made of does what it says: lists of numbers, threads that begin together, loops over
// memory, made-up weights, reads of a file.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "cli/bench/drive_speed.h"
#include "cli/bench/kernel_bench.h"
#include "cli/bench/lists.h"
#include "cli/bench/memory_speed.h"
#include "cli/bench/pages.h"
#include "cli/bench/sample_blocks.h"
#include "cli/bench/spread.h"
#include "cli/bench/stream_loops.h"
#include "cli/bench/team.h"
#include "cli/models.h"

namespace strata::cli {
namespace {

TEST(Lists, Counts) {
  Settings settings;
  const auto parse = [&](const char* text) {
    EXPECT_TRUE(settings.set(Key::kNPrompt, text, "-p").ok());
    return parse_counts(settings, Key::kNPrompt, {0, 99});
  };
  EXPECT_EQ(parse("0").value(), (std::vector<int64_t>{0}));
  EXPECT_EQ(parse("7,99,7").value(), (std::vector<int64_t>{7, 99, 7}));
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "100", "-1", "1.5", "1x", " 1", "99999999999999999999"}) {
    const auto counts = parse(bad);
    ASSERT_FALSE(counts.ok()) << bad;
    EXPECT_EQ(counts.error().code, ErrorCode::kBadInput);
    EXPECT_NE(counts.error().message.find("--n-prompt"), std::string::npos);
    EXPECT_NE(counts.error().message.find("whole numbers from 0 to 99"), std::string::npos);
  }
  EXPECT_TRUE(parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16").ok());
  EXPECT_FALSE(parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17").ok());
}

TEST(Lists, Shapes) {
  Settings settings;
  const auto parse = [&](const char* text) {
    EXPECT_TRUE(settings.set(Key::kShape, text, "--shape").ok());
    return parse_shapes(settings);
  };
  const auto shapes = parse("1x256,768x2048");
  ASSERT_TRUE(shapes.ok());
  ASSERT_EQ(shapes->size(), 2u);
  EXPECT_EQ((*shapes)[1].rows, 768);
  EXPECT_EQ((*shapes)[1].cols, 2048);
  for (const char* bad : {"", "x", "1", "1x", "x256", "0x256", "1x255", "1x0", "1x256x1", "2000000x256", "1x1000000"}) {
    EXPECT_FALSE(parse(bad).ok()) << bad;
  }
}

TEST(Spread, OfOddAndEvenNumbers) {
  const Spread odd = spread_of({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(spread_of({4, 1, 2, 8}).median, 3);
  EXPECT_EQ(spread_of({5}).median, 5);
}

TEST(Team, EachThreadGetsTheBodyOnce) {
  for (const int n_threads : {1, 2, 3, 7}) {
    ThreadPool pool({.n_threads = n_threads});
    for (int round = 0; round < 20; round++) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(n_threads));
      EXPECT_GE(run_together(pool, [&](int worker) { calls[static_cast<size_t>(worker)]++; }), 0);
      for (const auto& n : calls) EXPECT_EQ(n, 1);
    }
  }
}

TEST(Team, ThreadsAreTheEngines) {
  EXPECT_EQ(team_options({}, 0).n_threads, static_cast<int>(team_options({}, 0).cpus.size()));
  EXPECT_EQ(team_options({5, 6, 7}, 0).n_threads, 3);
  EXPECT_EQ(team_options({5, 6, 7}, 2).cpus, (std::vector<int>{5, 6, 7}));
  EXPECT_TRUE(team_options({5, 6, 7}, 4).cpus.empty()) << "more threads than cores are not pinned";
}

TEST(Pages, AreAlignedAndWritable) {
  auto pages = Pages::allocate(3 * kMiB);
  ASSERT_TRUE(pages.ok());
  const std::span<std::byte> bytes = (*pages)->bytes();
  EXPECT_EQ(bytes.size(), 4 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % (2 * kMiB), 0u);
  std::fill(bytes.begin(), bytes.end(), std::byte{1});
  EXPECT_LE((*pages)->huge_bytes(), bytes.size());
  EXPECT_FALSE(Pages::allocate(~uint64_t{0}).ok());
  EXPECT_FALSE(Pages::allocate(uint64_t{1} << 60).ok());
}

TEST(Pages, BuffersLeaveHalfOfTheRam) {
  const auto small = buffer_size(kMiB);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->bytes, kMiB);
  EXPECT_FALSE(small->reduced);
  const auto huge = buffer_size(uint64_t{1} << 60);
  ASSERT_TRUE(huge.ok());
  EXPECT_LT(huge->bytes, uint64_t{1} << 60);
  EXPECT_TRUE(huge->reduced);
}

TEST(StreamLoops, TouchEveryWordOnce) {
  constexpr size_t kBytes = 3 * kLoopBytes;
  auto pages = Pages::allocate(2 * kBytes);
  ASSERT_TRUE(pages.ok());
  std::byte* from = (*pages)->bytes().data();
  std::byte* to = from + kBytes;
  for (size_t i = 0; i < kBytes / 8; i++) store_le(from + i * 8, uint64_t{i});
  constexpr uint64_t kWords = kBytes / 8;
  EXPECT_EQ(read_stream(from, kBytes), kWords * (kWords - 1) / 2);
  copy_stream(to, from, kBytes);
  EXPECT_TRUE(std::equal(from, from + kBytes, to));
  EXPECT_EQ((*pages)->bytes()[2 * kBytes], std::byte{0}) << "nothing past the end";
  write_stream(from, kBytes, 5);
  EXPECT_EQ(read_stream(from, kBytes), 5 * kWords);
  EXPECT_TRUE(load_le<uint64_t>(to + 8) == 1) << "nothing past the end";
}

TEST(MemorySpeed, TellsWhatItMeasuredWith) {
  const auto speed = measure_memory(team_options({}, 2), 16 * kMiB);
  ASSERT_TRUE(speed.ok());
  EXPECT_EQ(speed->read.threads, 2);
  EXPECT_EQ(speed->read.buffer_bytes, 16 * kMiB);
  EXPECT_FALSE(speed->read.reduced);
  const double rates[] = {speed->read.bytes_per_second, speed->write_bytes_per_second, speed->copy_bytes_per_second};
  for (const double rate : rates) {
    EXPECT_GT(rate, 0);
    EXPECT_TRUE(std::isfinite(rate));
  }
  // Threads that a small buffer has hardly any room for.
  EXPECT_TRUE(measure_read({.n_threads = 40}, 1).ok());
}

TEST(SampleBlocks, ValuesOfEveryTypeAreTame) {
  Random random(1);
  for (const quant::TypeInfo* type : product_types()) {
    const size_t n = size_t{300} * type->block_elems;
    std::vector<std::byte> blocks(quant::row_bytes(type->type, n));
    ASSERT_TRUE(fill_with_blocks(*type, random, blocks).ok()) << type->name;
    std::vector<float> values(n);
    type->decode(reinterpret_cast<const uint8_t*>(blocks.data()), values.data(), n);
    float largest = 0;
    for (const float value : values) {
      ASSERT_TRUE(std::isfinite(value)) << type->name;
      largest = std::max(largest, std::fabs(value));
    }
    EXPECT_GE(largest, 1e-3f) << type->name;
    EXPECT_LE(largest, 1e3f) << type->name;
  }
}

TEST(KernelBench, GoesThroughEveryCombination) {
  const KernelBenchOptions options{.types = {quant::find_type("Q4_K"), quant::find_type("F16")},
                                   .isas = {kernels::Isa::kScalar},
                                   .shapes = {{3, 256}, {1, 512}},
                                   .tokens = {1, 5},
                                   .repetitions = 1,
                                   .buffer_bytes = kMiB};
  std::vector<KernelResult> results;
  ASSERT_TRUE(bench_kernels(options, [&](const KernelResult& result) {
                results.push_back(result);
                return Status();
              }).ok());
  std::vector<std::string> rows;
  for (const KernelResult& r : results) {
    rows.push_back(std::string(r.path) + " " + r.type->name + " " + std::to_string(r.shape.rows) + " " +
                   std::to_string(r.tokens));
    EXPECT_DOUBLE_EQ(r.operations_per_second() * r.seconds.median,
                     2.0 * static_cast<double>(r.shape.rows * r.shape.cols * r.tokens));
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"float Q4_K 3 1", "q8 Q4_K 3 1", "float Q4_K 3 5", "q8 Q4_K 3 5",
                                            "float Q4_K 1 1", "q8 Q4_K 1 1", "float Q4_K 1 5", "q8 Q4_K 1 5",
                                            "float F16 3 1", "float F16 3 5", "float F16 1 1", "float F16 1 5"}))
      << "floats have no integer products";
  EXPECT_EQ(results.front().weight_bytes, 3u * 144);
  EXPECT_EQ(results.back().weight_bytes, 512u * 2);
  const Error stop{ErrorCode::kCancelled, ""};
  EXPECT_EQ(bench_kernels(options, [&](const KernelResult&) { return Status(stop); }).error().code, stop.code);
}

TEST(KernelBench, EveryInstructionSetAndTypeIsMeasured) {
  std::vector<kernels::Isa> isas;
  for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512, kernels::Isa::kAvx512Vnni,
                                 kernels::Isa::kAmx}) {
    if (kernels::isa_available(isa)) isas.push_back(isa);
  }
  // 17 tokens: a whole tile and one that is not.
  const KernelBenchOptions options{.types = {quant::find_type("Q4_K"), quant::find_type("Q8_0")},
                                   .isas = isas,
                                   .shapes = {{33, 512}},
                                   .tokens = {17},
                                   .repetitions = 1,
                                   .buffer_bytes = kMiB};
  size_t n = 0;
  ASSERT_TRUE(bench_kernels(options, [&](const KernelResult& result) {
                n++;
                EXPECT_GT(result.seconds.min, 0);
                return Status();
              }).ok());
  EXPECT_EQ(n, 2 * 2 * isas.size());
}

TEST(KernelBench, RefusesWhatDoesNotFit) {
  const KernelBenchOptions options{.types = {quant::find_type("F32")},
                                   .isas = {kernels::Isa::kScalar},
                                   .shapes = {{1 << 20, 1 << 17}},
                                   .tokens = {8192},
                                   .repetitions = 1,
                                   .buffer_bytes = kMiB};
  const Status status = bench_kernels(options, [](const KernelResult&) { return Status(); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kNoMemory);
}

TEST(DriveSpeed, ReadsTheWholeFile) {
  const test::TempDir dir;
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{9'000'001}}) {
    test::write_file(dir.file("x"), std::string(size, 'x'));
    const auto speed = measure_drive(dir.file("x"));
    ASSERT_TRUE(speed.ok()) << speed.error().message;
    EXPECT_EQ(speed->file_bytes, size);
    EXPECT_EQ(speed->read_bytes, size);
    EXPECT_GT(speed->bytes_per_second, 0);
  }
}

TEST(DriveSpeed, RefusesWhatIsNoFile) {
  const test::TempDir dir;
  test::write_file(dir.file("empty"), "");
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(measure_drive(dir.file("none")).error().code, ErrorCode::kNotFound);
  for (const std::string& path : {dir.path(), dir.file("empty"), dir.file("pipe"), std::string("/dev/zero")}) {
    const auto speed = measure_drive(path);
    ASSERT_FALSE(speed.ok()) << path;
    EXPECT_EQ(speed.error().code, ErrorCode::kBadInput) << path;
    EXPECT_NE(speed.error().message.find(path), std::string::npos);
  }
}

}  // namespace
}  // namespace strata::cli
