// A model written again in other types: what changes, what stays, what is refused, and that failures leave nothing.
#include "gguf/quantize/quantize.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "gguf/gguf_builder.h"
#include "gguf/support.h"
#include "quant/encode.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using gguf::QuantizeOptions;
using gguf::QuantizeSummary;
using quant::Type;
namespace fs = std::filesystem;

std::vector<float> gaussian(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal()) * 0.02f;
  return values;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encoded(Type type, const std::vector<float>& values) {
  std::vector<std::byte> blocks(quant::row_bytes(type, values.size()));
  quant::find_encoder(type)(values.data(), reinterpret_cast<uint8_t*>(blocks.data()), values.size());
  return blocks;
}

class QuantizeTest : public ::testing::Test {
 protected:
  Result<QuantizeSummary> quantize(const gguf::Model& model, const std::string& out, const std::string& type,
                                   const QuantizeOptions& options = {}, int n_threads = 2) {
    ThreadPool pool({.n_threads = n_threads, .spin_us = 0});
    return gguf::quantize(model, out, **gguf::find_file_type(type), options, pool);
  }

  // The new file, which has to come about and open.
  std::unique_ptr<gguf::Model> quantized(const gguf::Model& model, const std::string& type,
                                         const QuantizeOptions& options = {}, int n_threads = 2) {
    const std::string out = dir_.file("out.gguf");
    const auto summary = quantize(model, out, type, options, n_threads);
    EXPECT_TRUE(summary.ok()) << (summary.ok() ? "" : summary.error().message);
    auto opened = gguf::Model::open(out, real_file_system());
    if (!opened.ok()) {
      ADD_FAILURE() << opened.error().message;
      std::abort();
    }
    return std::move(*opened);
  }

  void expect_refused(const gguf::Model& model, const std::string& out, const std::string& type, ErrorCode code,
                      const std::string& piece, const QuantizeOptions& options = {}) {
    const auto before = names();
    const auto summary = quantize(model, out, type, options);
    ASSERT_FALSE(summary.ok()) << "was accepted";
    EXPECT_EQ(summary.error().code, code) << summary.error().message;
    EXPECT_NE(summary.error().message.find(piece), std::string::npos) << summary.error().message;
    EXPECT_EQ(names(), before);
  }

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(dir_.path())) all.insert(entry.path().filename().string());
    return all;
  }

  TempDir dir_;
};

std::vector<std::byte> data_of(const gguf::Model& model, const std::string& name) {
  const gguf::TensorInfo* tensor = model.find_tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  std::vector<std::byte> bytes(tensor->bytes);
  EXPECT_TRUE(model.read(*tensor, 0, bytes).ok());
  return bytes;
}

// Three tensors and one of each sort of key that is copied, replaced or dropped.
GgufBuilder example() {
  GgufBuilder builder;
  builder.u32("general.quantization_version", 1).string("general.architecture", "x").u32("general.file_type", 0);
  builder.set_alignment(64).u32("x.block_count", 2).strings("words", {"a", "", "c"}).f64("number", 0.1);
  builder.tensor({.name = "blk.0.attn_q.weight", .ne = {512, 3}, .data = bytes_of(gaussian(1536, 1))});
  builder.tensor({.name = "blk.0.attn_norm.weight", .ne = {512}, .data = bytes_of(gaussian(512, 2))});
  builder.tensor({.name = "blk.1.ffn_up_exps.weight", .ne = {256, 2, 2}, .data = bytes_of(gaussian(1024, 3))});
  return builder;
}

std::unique_ptr<gguf::Model> opened(const GgufBuilder& builder) {
  auto model = open_bytes(builder.bytes());
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    std::abort();
  }
  return std::move(*model);
}

TEST_F(QuantizeTest, ConvertsWeightsAndCopiesTheRest) {
  const auto model = opened(example());
  const auto out = quantized(*model, "Q4_K");
  EXPECT_EQ(data_of(*out, "blk.0.attn_q.weight"), encoded(Type::Q4_K, gaussian(1536, 1)));
  EXPECT_EQ(data_of(*out, "blk.0.attn_norm.weight"), bytes_of(gaussian(512, 2)));
  EXPECT_EQ(data_of(*out, "blk.1.ffn_up_exps.weight"), encoded(Type::Q4_K, gaussian(1024, 3)));
  EXPECT_EQ(out->tensors()[0].name, "blk.0.attn_q.weight");
  EXPECT_EQ(out->tensors()[2].ne[2], 2u);

  EXPECT_EQ(*out->require_string("general.architecture"), "x");
  EXPECT_EQ(*out->require_int("general.file_type", 0, 99), 15);
  EXPECT_EQ(*out->require_int("general.quantization_version", 0, 99), 2);
  EXPECT_EQ(*out->require_int("x.block_count", 0, 99), 2);
  EXPECT_EQ(*out->require_float("number"), 0.1);
  EXPECT_EQ(out->find("words")->strings()->at(2), "c");
  EXPECT_EQ(out->shards().front().alignment, 64u);
  EXPECT_EQ(out->entries().size(), model->entries().size());
}

TEST_F(QuantizeTest, SaysWhatItDid) {
  std::vector<std::string> seen;
  QuantizeOptions options;
  options.progress = [&](const gguf::QuantizeProgress& progress) {
    EXPECT_EQ(progress.index, seen.size());
    EXPECT_EQ(progress.n_tensors, 4u);
    seen.push_back(progress.tensor->name + " " + quant::info(progress.type).name);
  };
  GgufBuilder builder = example();
  builder.tensor({.name = "blk.1.attn_q.weight", .ne = {96, 2}});
  const auto model = opened(builder);
  const auto summary = quantize(*model, dir_.file("out.gguf"), "Q6_K", options);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"blk.0.attn_q.weight Q6_K", "blk.0.attn_norm.weight F32",
                                            "blk.1.ffn_up_exps.weight Q6_K", "blk.1.attn_q.weight Q8_0"}));
  EXPECT_EQ(summary->n_tensors, 4u);
  EXPECT_EQ(summary->n_converted, 3u);
  EXPECT_EQ(summary->n_fallbacks, 1u);
  EXPECT_EQ(summary->bytes_before, 4u * (1536 + 512 + 1024 + 192));
  EXPECT_EQ(summary->bytes_after, 210u * 10 + 4 * 512 + 34 * 6);
}

TEST_F(QuantizeTest, ReadsSplitModels) {
  GgufBuilder first, second;
  first.string("general.architecture", "x").split(0, 2, 2);
  first.tensor({.name = "a.weight", .ne = {32, 2}, .data = bytes_of(gaussian(64, 4))});
  second.split(1, 2, 2);
  second.tensor({.name = "b.weight", .ne = {32, 2}, .data = bytes_of(gaussian(64, 5))});
  const auto model = open_files({{"m-00001-of-00002.gguf", first.bytes()}, {"m-00002-of-00002.gguf", second.bytes()}},
                                "/models/m-00001-of-00002.gguf");
  ASSERT_TRUE(model.ok());
  const auto out = quantized(**model, "Q8_0");
  EXPECT_EQ(data_of(*out, "a.weight"), encoded(Type::Q8_0, gaussian(64, 4)));
  EXPECT_EQ(data_of(*out, "b.weight"), encoded(Type::Q8_0, gaussian(64, 5)));
  EXPECT_EQ(out->shards().size(), 1u);
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) EXPECT_EQ(out->find(key), nullptr) << key;
}

// Longer than a piece, and not a multiple of what a worker takes.
constexpr uint64_t kLongElems = (uint64_t{1} << 20) + 4096 + 256;

TEST_F(QuantizeTest, PiecesAndThreadsDoNotShow) {
  const std::vector<float> values = gaussian(kLongElems, 6);
  GgufBuilder builder;
  builder.string("general.architecture", "x");
  builder.tensor({.name = "a.weight", .ne = {256, kLongElems / 256}, .data = bytes_of(values)});
  builder.tensor({.name = "a.bias", .ne = {kLongElems}, .data = bytes_of(values)});
  const auto model = opened(builder);
  for (const int n_threads : {1, 5}) {
    const auto out = quantized(*model, "IQ4_XS", {.pure = true}, n_threads);
    EXPECT_TRUE(data_of(*out, "a.weight") == encoded(Type::IQ4_XS, values)) << n_threads;
    EXPECT_TRUE(data_of(*out, "a.bias") == bytes_of(values)) << n_threads;
  }
}

TEST_F(QuantizeTest, WidensAndConvertsBetweenFloats) {
  const std::vector<float> values = gaussian(512, 7);
  const std::vector<std::byte> halves = encoded(Type::F16, values);
  GgufBuilder builder;
  builder.string("general.architecture", "x");
  builder.tensor({.name = "a.weight", .ne = {256, 2}, .type = 1, .data = halves});
  const auto model = opened(builder);
  std::vector<float> widened(512);
  quant::info(Type::F16).decode(reinterpret_cast<const uint8_t*>(halves.data()), widened.data(), 512);
  EXPECT_EQ(data_of(*quantized(*model, "F32"), "a.weight"), bytes_of(widened));
  EXPECT_EQ(data_of(*quantized(*model, "BF16"), "a.weight"), encoded(Type::BF16, widened));
  EXPECT_EQ(data_of(*quantized(*model, "F16"), "a.weight"), halves);
}

TEST_F(QuantizeTest, RequantisesOnlyWhenAllowed) {
  const std::vector<float> values = gaussian(512, 8);
  const std::vector<std::byte> blocks = encoded(Type::Q8_0, values);
  GgufBuilder builder;
  builder.string("general.architecture", "x");
  builder.tensor({.name = "a.weight", .ne = {256, 2}, .type = 8, .data = blocks});
  const auto model = opened(builder);
  expect_refused(*model, dir_.file("no.gguf"), "Q4_K_M", ErrorCode::kBadInput, "'a.weight' is Q8_0 already");
  expect_refused(*model, dir_.file("no.gguf"), "F16", ErrorCode::kBadInput, "--allow-requantize");
  std::vector<float> back(512);
  quant::info(Type::Q8_0).decode(reinterpret_cast<const uint8_t*>(blocks.data()), back.data(), 512);
  EXPECT_EQ(data_of(*quantized(*model, "Q4_K_M", {.allow_requantize = true}), "a.weight"), encoded(Type::Q4_K, back));
  EXPECT_EQ(data_of(*quantized(*model, "F32", {.allow_requantize = true}), "a.weight"), bytes_of(back));
  // A tensor that has its type already is copied.
  EXPECT_EQ(data_of(*quantized(*model, "Q8_0"), "a.weight"), blocks);
}

TEST_F(QuantizeTest, NamesTheFirstValueThatIsNotFinite) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> values = gaussian(kLongElems, 9);
    for (const size_t at : {(size_t{1} << 20) + 4300, (size_t{1} << 20) + 77}) values[at] = bad;
    GgufBuilder builder;
    builder.string("general.architecture", "x");
    builder.tensor({.name = "fine.weight", .ne = {256, 1}});
    builder.tensor({.name = "bad.weight", .ne = {256, kLongElems / 256}, .data = bytes_of(values)});
    const auto model = opened(builder);
    expect_refused(*model, dir_.file("no.gguf"), "Q8_0", ErrorCode::kBadInput, "'bad.weight'");
    expect_refused(*model, dir_.file("no.gguf"), "F16", ErrorCode::kBadInput, "its value 1048653 is");
    // A tensor that is copied may hold anything.
    EXPECT_TRUE(data_of(*quantized(*model, "F32"), "bad.weight") == bytes_of(values));
  }
}

TEST_F(QuantizeTest, ReplacesNoFileThatItReads) {
  const std::string in = dir_.file("in.gguf");
  const std::vector<std::byte> bytes = example().bytes();
  const auto write = [&](const std::string& path) {
    FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    std::fclose(file);
  };
  write(in);
  const auto model = gguf::Model::open(in, real_file_system());
  ASSERT_TRUE(model.ok());
  expect_refused(**model, in, "Q8_0", ErrorCode::kBadInput, "it would replace");
  expect_refused(**model, dir_.path() + "/./in.gguf", "Q8_0", ErrorCode::kBadInput, "it would replace");
  fs::create_hard_link(in, dir_.file("hard.gguf"));
  fs::create_symlink(in, dir_.file("soft.gguf"));
  expect_refused(**model, dir_.file("hard.gguf"), "Q8_0", ErrorCode::kBadInput, "it would replace");
  expect_refused(**model, dir_.file("soft.gguf"), "Q8_0", ErrorCode::kBadInput, "it would replace");
  const auto after = read_bytes(in);
  EXPECT_EQ(after.size(), bytes.size());
  EXPECT_EQ(std::memcmp(after.data(), bytes.data(), bytes.size()), 0);
}

TEST_F(QuantizeTest, RefusesNamesThatCannotHoldAModel) {
  const auto model = opened(example());
  expect_refused(*model, dir_.path(), "Q8_0", ErrorCode::kBadInput, "is not a file");
  expect_refused(*model, "/dev/full", "Q8_0", ErrorCode::kIo, "cannot write /dev/full: No space left");
  expect_refused(*model, dir_.file("m-00001-of-00002.gguf"), "Q8_0", ErrorCode::kBadInput, "split");
  expect_refused(*model, dir_.file("none/out.gguf"), "Q8_0", ErrorCode::kIo, "none/out.gguf");
}

TEST_F(QuantizeTest, ACompleteFileReplacesAnOldOne) {
  const auto model = opened(example());
  EXPECT_EQ(quantized(*model, "Q8_0")->tensors()[0].type, Type::Q8_0);
  EXPECT_EQ(quantized(*model, "Q4_0")->tensors()[0].type, Type::Q4_0);
  EXPECT_EQ(names(), std::set<std::string>{"out.gguf"});
}

TEST_F(QuantizeTest, StopsWhenAsked) {
  const auto model = opened(example());
  std::atomic<bool> cancel{false};
  QuantizeOptions options{.cancel = &cancel};
  options.progress = [&](const gguf::QuantizeProgress& progress) { cancel = progress.index == 1; };
  expect_refused(*model, dir_.file("out.gguf"), "Q8_0", ErrorCode::kCancelled, "nothing was written", options);
}

TEST_F(QuantizeTest, PassesReadFailuresOn) {
  MemoryFileSystem memory;
  memory.add_file("/m.gguf", example().bytes());
  FaultyFileSystem counting(memory, real_clock(), {});
  const auto model = gguf::Model::open("/m.gguf", counting);
  ASSERT_TRUE(model.ok());
  const uint64_t opening = counting.n_reads();
  for (const uint64_t read : {opening, opening + 1, opening + 2}) {
    FaultyFileSystem faulty(memory, real_clock(), {.at = {{read, Fault::kIoError}}});
    const auto spoilt = gguf::Model::open("/m.gguf", faulty);
    ASSERT_TRUE(spoilt.ok());
    expect_refused(**spoilt, dir_.file("out.gguf"), "Q8_0", ErrorCode::kIo, "/m.gguf");
  }
}

}  // namespace
}  // namespace strata::test
