// Where tensors lie: experts, alignments, gaps, names, and reading when the disk misbehaves.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "gguf/gguf_builder.h"
#include "gguf/support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

std::vector<std::byte> filled(size_t n, uint8_t value) { return std::vector<std::byte>(n, std::byte{value}); }

std::vector<std::byte> read_all(const gguf::Model& model, const gguf::TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  const Status status = model.read(tensor, 0, bytes);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return bytes;
}

TEST(LayoutTest, MergedExpertsAreFoundByFormula) {
  constexpr uint64_t kHidden = 64, kFf = 3, kExperts = 5;  // an odd expert size: 2 * 18 * 3 = 108 bytes
  std::vector<std::byte> data;
  for (uint8_t e = 0; e < kExperts; ++e) {
    const auto expert = filled(kHidden / 32 * 18 * kFf, static_cast<uint8_t>(e + 1));
    data.insert(data.end(), expert.begin(), expert.end());
  }
  GgufBuilder builder;
  builder.tensor({.name = "before", .ne = {5}});
  builder.tensor({.name = "blk.0.ffn_up_exps.weight", .ne = {kHidden, kFf, kExperts}, .type = 2, .data = data});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const gguf::TensorInfo* tensor = (*opened)->find_tensor("blk.0.ffn_up_exps.weight");
  ASSERT_NE(tensor, nullptr);
  const uint64_t expert_bytes = tensor->row_bytes * tensor->ne[1];
  ASSERT_EQ(expert_bytes, 108u);
  for (uint64_t e = 0; e < kExperts; ++e) {
    const auto expected = filled(expert_bytes, static_cast<uint8_t>(e + 1));
    std::vector<std::byte> through_model(expert_bytes), through_file(expert_bytes);
    ASSERT_TRUE((*opened)->read(*tensor, e * expert_bytes, through_model).ok());
    EXPECT_EQ(through_model, expected);
    File& file = *(*opened)->shards()[0].file;
    ASSERT_TRUE(file.read_exact(tensor->file_offset + e * expert_bytes, through_file).ok());
    EXPECT_EQ(through_file, expected);
  }
}

class AlignmentTest : public testing::TestWithParam<uint32_t> {};

TEST_P(AlignmentTest, PlacesTheData) {
  GgufBuilder builder;
  // The alignment comes last, after keys of odd lengths.
  builder.string("general.architecture", "llama").u8("odd", 1).set_alignment(GetParam());
  builder.tensor({.name = "a", .ne = {3}, .type = 24, .data = filled(3, 1)});
  builder.tensor({.name = "b", .ne = {2, 2}, .data = filled(16, 2)});
  builder.fill_after_last = false;
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const gguf::Model& model = **opened;
  EXPECT_EQ(model.shards()[0].alignment, GetParam());
  EXPECT_EQ(model.shards()[0].data_offset % GetParam(), 0u);
  EXPECT_EQ(model.tensors()[1].file_offset % GetParam(), 0u);
  EXPECT_EQ(read_all(model, model.tensors()[0]), filled(3, 1));
  EXPECT_EQ(read_all(model, model.tensors()[1]), filled(16, 2));
}

INSTANTIATE_TEST_SUITE_P(PowersOfTwo, AlignmentTest, testing::Values(1, 2, 4, 8, 16, 32, 64, 256, 4096, 65536));

TEST(LayoutTest, ScalarHasOneElement) {
  GgufBuilder builder;
  builder.tensor({.name = "scale", .ne = {}, .data = filled(4, 7)});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const gguf::TensorInfo& scale = (*opened)->tensors()[0];
  EXPECT_EQ(scale.n_dims, 0);
  EXPECT_EQ(scale.n_elements, 1u);
  EXPECT_EQ(scale.ne[0], 1u);
  EXPECT_EQ(scale.bytes, 4u);
  EXPECT_EQ(read_all(**opened, scale), filled(4, 7));
}

TEST(LayoutTest, TrailingOnesMayBeKept) {
  GgufBuilder builder;
  builder.tensor({"a", {4, 1, 1, 1}}).tensor({"b", {4}});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->tensors()[0].n_dims, 4);
  EXPECT_EQ((*opened)->tensors()[0].bytes, (*opened)->tensors()[1].bytes);
}

// Row 25: other arrangements than the usual one are fine as long as nothing overlaps.
TEST(LayoutTest, GapsAndOtherOrderAreAccepted) {
  GgufBuilder builder;
  builder.tensor({.name = "a", .ne = {8}, .offset = 96, .data = filled(32, 3)});
  builder.tensor({.name = "b", .ne = {8}, .offset = 0, .data = filled(96, 4)});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->tensors()[0].name, "a");
  EXPECT_EQ(read_all(**opened, (*opened)->tensors()[0]), filled(32, 4));
  EXPECT_EQ(read_all(**opened, (*opened)->tensors()[1]), filled(32, 3));
}

TEST(LayoutTest, ExtraBytesBehindTheDataAreIgnored) {
  GgufBuilder builder;
  builder.tensor({"a", {4}});
  std::vector<std::byte> bytes = builder.bytes();
  bytes.resize(bytes.size() + 1000);
  EXPECT_TRUE(open_bytes(std::move(bytes)).ok());
}

TEST(LayoutTest, NamesUpToTheirLimitsAndBeyondAsciiAreFound) {
  const std::string key(65535, 'k');
  const std::string name(63, 'n');
  GgufBuilder builder;
  builder.u8(key, 5).u8("sch\xc3\xb6n", 6).u8("not\xff" "utf8", 7);
  builder.tensor({name, {4}}).tensor({"caf\xc3\xa9", {4}});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->require_int(key, 5, 5).value(), 5);
  EXPECT_EQ((*opened)->require_int("sch\xc3\xb6n", 6, 6).value(), 6);
  EXPECT_NE((*opened)->find_tensor(name), nullptr);
  EXPECT_NE((*opened)->find_tensor("caf\xc3\xa9"), nullptr);
  EXPECT_EQ((*opened)->find_tensor(name.substr(1)), nullptr);
  walk(**opened);
}

TEST(LayoutTest, PerExpertTensorsOfOldFilesAreOrdinaryTensors) {
  GgufBuilder builder;
  builder.tensor({"blk.0.ffn_up.1.weight", {32, 2}, 8}).tensor({"blk.0.ffn_up.0.weight", {32, 2}, 2});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->find_tensor("blk.0.ffn_up.0.weight")->bytes, 36u);
  EXPECT_EQ((*opened)->find_tensor("blk.0.ffn_up.1.weight")->bytes, 68u);
}

// Metadata that spans several read windows, with values across their borders.
TEST(LayoutTest, LongMetadataIsReadInWindows) {
  std::vector<std::string> words;
  for (int i = 0; i < 60'000; ++i) words.push_back(std::string(static_cast<size_t>(i % 37), 'a') + std::to_string(i));
  ByteString numbers;
  for (uint32_t i = 0; i < 200'000; ++i) numbers.u32(i * 7);
  GgufBuilder builder;
  builder.strings("words", words).array("numbers", 4, 200'000, numbers).u32("last", 42);
  builder.tensor({"a", {4}});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto read_words = (*opened)->find("words")->strings();
  ASSERT_TRUE(read_words.ok());
  ASSERT_EQ(read_words->size(), words.size());
  for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ((*read_words)[i], words[i]);
  for (uint64_t i = 0; i < 200'000; ++i) ASSERT_EQ((*opened)->find("numbers")->as_uint(i).value(), i * 7);
  EXPECT_EQ((*opened)->require_int("last", 0, 100).value(), 42);
}

GgufBuilder several_windows() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").array("fill", 0, 700'000, ByteString().zeros(700'000));
  builder.tensor({.name = "a", .ne = {64}, .data = filled(256, 9)});
  return builder;
}

TEST(FaultyReadTest, ShortAndInterruptedReadsChangeNothing) {
  MemoryFileSystem memory;
  memory.add_file("/models/m.gguf", several_windows().bytes());
  ManualClock clock;
  uint64_t injected = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FaultPlan plan;
    plan.seed = seed;
    plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.4;
    plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.3;
    FaultyFileSystem faulty(memory, clock, plan);
    const OpenResult opened = gguf::Model::open("/models/m.gguf", faulty);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->find("fill")->count(), 700'000u);
    EXPECT_EQ(read_all(**opened, (*opened)->tensors()[0]), filled(256, 9));
    injected += faulty.n_injected(Fault::kShortRead) + faulty.n_injected(Fault::kInterrupted);
  }
  EXPECT_GT(injected, 20u);
}

TEST(FaultyReadTest, AnErrorOfAnyReadIsReported) {
  MemoryFileSystem memory;
  memory.add_file("/models/m.gguf", several_windows().bytes());
  ManualClock clock;
  FaultyFileSystem sound(memory, clock, {});
  const OpenResult opened = gguf::Model::open("/models/m.gguf", sound);
  ASSERT_TRUE(opened.ok());
  const uint64_t n_reads = sound.n_reads();
  ASSERT_GE(n_reads, 3u);  // 700 KB do not come in one window
  for (uint64_t n = 0; n < n_reads; ++n) {
    FaultPlan plan;
    plan.at.push_back({n, Fault::kIoError});
    FaultyFileSystem faulty(memory, clock, plan);
    expect_error(gguf::Model::open("/models/m.gguf", faulty), ErrorCode::kIo, {"/models/m.gguf"});
  }
}

// Row 27: the file shrinks after it was opened.
TEST(FaultyReadTest, AFileThatShrinksIsAReadError) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  const std::vector<std::byte> bytes = several_windows().bytes();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()),
                                              static_cast<std::streamsize>(bytes.size()));
  const OpenResult opened = gguf::Model::open(path, real_file_system());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const gguf::TensorInfo& tensor = (*opened)->tensors()[0];
  EXPECT_EQ(read_all(**opened, tensor), filled(256, 9));
  std::filesystem::resize_file(path, tensor.file_offset + 100);
  std::vector<std::byte> buffer(tensor.bytes);
  const Status status = (*opened)->read(tensor, 0, buffer);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, testing::HasSubstr(path));
}

TEST(LayoutTest, ReadsOutsideATensorAreRefused) {
  GgufBuilder builder;
  builder.tensor({"a", {4}}).tensor({"b", {4}});
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok());
  const gguf::TensorInfo& a = (*opened)->tensors()[0];
  std::vector<std::byte> buffer(8);
  EXPECT_TRUE((*opened)->read(a, 8, buffer).ok());
  for (const uint64_t offset : {uint64_t{9}, uint64_t{17}, ~uint64_t{0} - 3}) {
    const Status status = (*opened)->read(a, offset, buffer);
    ASSERT_FALSE(status.ok()) << offset;
    EXPECT_THAT(status.error().message, testing::HasSubstr("tensor 'a' has 16 bytes"));
  }
}

TEST(RealFilesTest, GoldenAndShippedModelsAreRead) {
  size_t n_models = 0;
  for (const char* folder : {"models", "arch"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(golden_path(folder))) {
      if (entry.path().extension() != ".gguf") continue;
      const OpenResult opened = gguf::Model::open(entry.path(), real_file_system());
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      EXPECT_GT(walk(**opened), 40u);
      ++n_models;
    }
  }
  EXPECT_GE(n_models, 7u);
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_MODELS_DIR)) {
    if (entry.path().extension() != ".gguf") continue;
    const OpenResult opened = gguf::Model::open(entry.path(), real_file_system());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    walk(**opened);
  }
}

}  // namespace
}  // namespace strata::test
