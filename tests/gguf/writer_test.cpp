// What the writer writes, and that the reader gives it back.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sys/resource.h>

#include "gguf/gguf_builder.h"
#include "gguf/split.h"
#include "gguf/support.h"
#include "gguf/writer.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using gguf::Writer;

std::vector<std::byte> counted(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 31 + 1);
  return bytes;
}

std::vector<std::byte> file_bytes(const std::string& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  const auto span = std::as_bytes(std::span(bytes));
  return {span.begin(), span.end()};
}

int n_files(const TempDir& dir) {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) n++;
  return n;
}

std::vector<std::byte> read_all(const gguf::Model& model, const gguf::TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  EXPECT_TRUE(model.read(tensor, 0, bytes).ok());
  return bytes;
}

void expect_written(const Status& status) { ASSERT_TRUE(status.ok()) << status.error().message; }

// The bytes are those that the rules of the format give: compared with the test's own builder.
TEST(WriterTest, WritesTheExpectedBytes) {
  const TempDir dir;
  Writer writer("llama");
  const std::vector<std::byte> a = counted(68), b = counted(16);
  writer.set_u16("u16", 65535);
  writer.set_u32("u32", 7);
  writer.set_i32("i32", -7);
  writer.set_u64("u64", uint64_t{1} << 63);
  writer.set_f32("f32", 0.5f);
  writer.set_bool("bool", true);
  writer.set_string("string", "text");
  writer.set_strings("strings", std::vector<std::string>{"x", "", "yz"});
  writer.set_i32s("i32s", std::vector<int32_t>{1, -1});
  writer.set_f32s("f32s", std::vector<float>{1.0f});
  writer.set_alignment(64);
  writer.add_tensor("a", quant::Type::Q8_0, {32, 2, 1}, a);
  writer.add_tensor("b", quant::Type::F32, {4}, b);
  expect_written(writer.write(dir.file("m.gguf")));

  GgufBuilder expected;
  expected.string("general.architecture", "llama").u16("u16", 65535).u32("u32", 7).i32("i32", -7);
  expected.u64("u64", uint64_t{1} << 63).f32("f32", 0.5f).boolean("bool", 1).string("string", "text");
  expected.strings("strings", {"x", "", "yz"}).array("i32s", 5, 2, ByteString().u32(1).u32(0xffffffff));
  expected.array("f32s", 6, 1, ByteString().f32(1.0f)).set_alignment(64).u32("general.quantization_version", 2);
  expected.tensor({.name = "a", .ne = {32, 2}, .type = 8, .data = a}).tensor({.name = "b", .ne = {4}, .data = b});
  EXPECT_EQ(file_bytes(dir.file("m.gguf")), expected.bytes());
  EXPECT_EQ(n_files(dir), 1);
}

TEST(WriterTest, AModelWithoutTensorsHasNoFill) {
  const TempDir dir;
  expect_written(Writer("x").write(dir.file("m.gguf")));
  GgufBuilder expected;
  expected.string("general.architecture", "x");
  EXPECT_EQ(file_bytes(dir.file("m.gguf")), expected.bytes());
}

TEST(WriterTest, TheQuantizationVersionIsAddedOnlyWhereNeeded) {
  const TempDir dir;
  const std::vector<std::byte> row = counted(4);
  const std::vector<std::byte> block = counted(34);
  Writer floats("x");
  floats.add_tensor("a", quant::Type::BF16, {2}, row);
  expect_written(floats.write(dir.file("floats.gguf")));
  const OpenResult plain = gguf::Model::open(dir.file("floats.gguf"), real_file_system());
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)->find("general.quantization_version"), nullptr);

  Writer own("x");
  own.set_u32("general.quantization_version", 3);
  own.add_tensor("a", quant::Type::Q8_0, {32}, block);
  expect_written(own.write(dir.file("own.gguf")));
  const OpenResult quantised = gguf::Model::open(dir.file("own.gguf"), real_file_system());
  ASSERT_TRUE(quantised.ok());
  EXPECT_EQ((*quantised)->require_int("general.quantization_version", 0, 9).value(), 3);
}

TEST(WriterTest, ProducersAreCalledOncePerTensor) {
  const TempDir dir;
  const std::vector<std::byte> large = counted(3 << 20);  // beyond the writer's buffer
  int calls = 0;
  Writer writer("x");
  writer.add_tensor("pieces", quant::Type::I8, {large.size()}, [&](const Writer::Sink& sink) -> Status {
    ++calls;
    for (size_t at = 0; at < large.size(); at += 70'001) {
      RETURN_IF_ERROR(sink(std::span(large).subspan(at, std::min<size_t>(70'001, large.size() - at))));
    }
    return {};
  });
  writer.add_tensor("whole", quant::Type::I8, {large.size()}, large);
  expect_written(writer.write(dir.file("m.gguf")));
  EXPECT_EQ(calls, 1);
  const OpenResult opened = gguf::Model::open(dir.file("m.gguf"), real_file_system());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(read_all(**opened, (*opened)->tensors()[0]), large);
  EXPECT_EQ(read_all(**opened, (*opened)->tensors()[1]), large);
}

// Mistakes of the caller come out of write(), the first one counts, and nothing is left on the disk.
TEST(WriterTest, WhatTheFormatDoesNotAllowIsReported) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  static const std::vector<std::byte> bytes = counted(64);
  const auto tensor = [](std::string name, quant::Type type, std::vector<uint64_t> ne, size_t n) {
    return [=](Writer& writer) { writer.add_tensor(name, type, ne, std::span(bytes).first(n)); };
  };
  struct Row {
    std::function<void(Writer&)> spoil;
    const char* piece;
  };
  const Row rows[] = {
      {[](Writer& w) { w.set_u32("k", 1); w.set_u32("k", 1); w.set_u32("", 1); }, "key 'k' is set twice"},
      {[](Writer& w) { w.set_string("general.architecture", "y"); }, "'general.architecture' is set twice"},
      {[](Writer& w) { w.set_u32("general.alignment", 64); }, "through set_alignment"},
      {[](Writer& w) { w.set_u32("", 1); }, "key '' is not allowed"},
      {[](Writer& w) { w.set_u32(std::string(65536, 'k'), 1); }, "1 to 65535 bytes"},
      {[](Writer& w) { w.set_u32(std::string_view("a\0", 2), 1); }, "key 'a?' is not allowed"},
      {[](Writer& w) { w.set_alignment(24); }, "alignment 24"},
      {[](Writer& w) { w.set_alignment(0); }, "alignment 0"},
      {[](Writer& w) { w.set_alignment(1 << 17); }, "alignment 131072"},
      {tensor("", quant::Type::F32, {4}, 16), "tensor name ''"},
      {tensor(std::string(64, 'n'), quant::Type::F32, {4}, 16), "1 to 63 bytes"},
      {tensor(std::string("a\0b", 3), quant::Type::F32, {4}, 16), "tensor name 'a?b'"},
      {tensor("t", quant::Type::F32, {}, 4), "dimensions"},
      {tensor("t", quant::Type::F32, {1, 1, 1, 1, 1}, 4), "dimensions"},
      {tensor("t", quant::Type::F32, {4, 0}, 0), "dimensions"},
      {tensor("t", quant::Type::F32, {uint64_t{1} << 32, uint64_t{1} << 32}, 0), "dimensions"},
      {tensor("t", quant::Type::Q8_0, {33}, 34), "dimensions that a Q8_0 tensor cannot have"},
      {tensor("t", quant::Type::Q8_1, {32}, 36), "Q8_1 is not allowed in files"},
      {tensor("t", quant::Type::F32, {4}, 15), "needs 16 bytes, 15 were given"},
      {[&](Writer& w) { for (int i = 0; i < 2; ++i) tensor("t", quant::Type::F32, {4}, 16)(w); }, "'t' is added twice"},
  };
  for (const Row& row : rows) {
    Writer writer("x");
    row.spoil(writer);
    const Status status = writer.write(path);
    ASSERT_FALSE(status.ok()) << row.piece;
    EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(status.error().message, testing::HasSubstr(row.piece));
    EXPECT_THAT(status.error().message, testing::HasSubstr(path));
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
}

TEST(WriterTest, AFailedWriteLeavesTheOldFile) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  Writer good("old");
  expect_written(good.write(path));
  const auto before = file_bytes(path);

  const auto failing = [&](std::function<Status(const Writer::Sink&)> produce) {
    Writer writer("new");
    writer.add_tensor("t", quant::Type::F32, {4}, std::move(produce));
    return writer.write(path);
  };
  const std::vector<std::byte> bytes = counted(17);
  const Status cancelled = failing([](const Writer::Sink&) -> Status { return Error{ErrorCode::kCancelled, "stop"}; });
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  const Status shorter = failing([&](const Writer::Sink& sink) { return sink(std::span(bytes).first(15)); });
  EXPECT_THAT(shorter.error().message, testing::HasSubstr("needs 16 bytes, 15 were produced"));
  const Status longer = failing([&](const Writer::Sink& sink) { return sink(bytes); });
  EXPECT_THAT(longer.error().message, testing::HasSubstr("needs 16 bytes, 17 were produced"));

  EXPECT_EQ(file_bytes(path), before);
  EXPECT_EQ(n_files(dir), 1);
}

TEST(WriterTest, APathThatCannotBeWrittenIsNamed) {
  const TempDir dir;
  for (const std::string& path : {dir.file("absent/m.gguf"), dir.path()}) {
    const Status status = Writer("x").write(path);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, path == dir.path() ? ErrorCode::kBadInput : ErrorCode::kIo);
    EXPECT_THAT(status.error().message, testing::HasSubstr(path));
  }
  EXPECT_EQ(n_files(dir), 0);
}

// A full disk: the device file fails every write.
TEST(WriterTest, AFullDiskIsAnIoError) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  std::filesystem::create_symlink("/dev/full", path);
  const Status status = Writer("x").write(path);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, testing::HasSubstr("No space left"));
  EXPECT_EQ(n_files(dir), 1);
}

// A disk that fills on the way: files may have this size and no more.
TEST(WriterTest, ADiskThatFillsLeavesTheOldFile) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  expect_written(Writer("x").write(path));
  const std::vector<std::byte> before = file_bytes(path);
  const std::vector<std::byte> bytes = counted(1 << 16);
  Writer writer("x");
  writer.add_tensor("t", quant::Type::F32, {1 << 14}, bytes);

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1 << 15, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = writer.write(path);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, testing::HasSubstr("cannot write " + path));
  EXPECT_EQ(file_bytes(path), before);
  EXPECT_EQ(n_files(dir), 1);
}

TEST(WriterTest, CopiesARealModel) {
  const std::string source_path = golden_path("models/moe-a-iq4_xs.gguf");
  const OpenResult source = gguf::Model::open(source_path, real_file_system());
  ASSERT_TRUE(source.ok());
  Writer writer((*source)->require_string("general.architecture").value());
  for (const auto& [key, value] : (*source)->entries()) {
    if (key != "general.architecture" && key != "general.alignment") writer.set_value(key, value);
  }
  for (const gguf::TensorInfo& tensor : (*source)->tensors()) {
    writer.add_tensor(tensor.name, tensor.type, {tensor.ne, tensor.ne + gguf::kMaxDims}, [&](const Writer::Sink& sink) {
      return sink(read_all(**source, tensor));
    });
  }
  const TempDir dir;
  expect_written(writer.write(dir.file("copy.gguf")));
  EXPECT_EQ(file_bytes(dir.file("copy.gguf")), file_bytes(source_path));
}

// Any valid set of keys and tensors comes back as it was.
TEST(WriterTest, RoundTripOfRandomModels) {
  const TempDir dir;
  const bool holds = rc::check("writer and reader agree", [&] {
    const auto alignment = uint32_t{1} << *rc::gen::inRange(0, 17);
    const auto texts = *rc::gen::arbitrary<std::vector<std::string>>();
    const auto integers = *rc::gen::arbitrary<std::vector<int32_t>>();
    const auto number = *rc::gen::arbitrary<uint64_t>();
    const auto shapes = *rc::gen::container<std::vector<std::vector<uint64_t>>>(rc::gen::mapcat(
        rc::gen::inRange<size_t>(1, 5), [](size_t n) {
          return rc::gen::container<std::vector<uint64_t>>(n, rc::gen::inRange<uint64_t>(1, 6));
        }));

    Writer writer("random");
    writer.set_alignment(alignment);
    writer.set_strings("texts", texts);
    writer.set_i32s("integers", integers);
    writer.set_u64("number", number);
    const quant::Type types[] = {quant::Type::F32, quant::Type::Q4_0, quant::Type::Q6_K, quant::Type::I8};
    std::vector<std::vector<std::byte>> data;
    data.reserve(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      const quant::TypeInfo& type = quant::info(types[i % 4]);
      std::vector<uint64_t> ne = shapes[i];
      ne[0] *= type.block_elems;
      uint64_t size = type.block_bytes;
      for (const uint64_t n : shapes[i]) size *= n;
      data.push_back(counted(size));
      writer.add_tensor("t" + std::to_string(i), type.type, ne, data.back());
    }
    const Status status = writer.write(dir.file("m.gguf"));
    RC_ASSERT(status.ok());

    const OpenResult opened = gguf::Model::open(dir.file("m.gguf"), real_file_system());
    RC_ASSERT(opened.ok());
    const gguf::Model& model = **opened;
    RC_ASSERT(model.shards()[0].alignment == alignment);
    const auto read_texts = model.find("texts")->strings();
    RC_ASSERT(read_texts.ok());
    RC_ASSERT(std::equal(texts.begin(), texts.end(), read_texts->begin(), read_texts->end()));
    RC_ASSERT(model.find("integers")->count() == integers.size());
    for (size_t i = 0; i < integers.size(); ++i) RC_ASSERT(*model.find("integers")->as_int(i) == integers[i]);
    RC_ASSERT(*model.find("number")->as_uint() == number);
    RC_ASSERT(model.tensors().size() == shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      const gguf::TensorInfo& tensor = model.tensors()[i];
      RC_ASSERT(tensor.type == types[i % 4]);
      RC_ASSERT(tensor.file_offset % alignment == 0u);
      RC_ASSERT(read_all(model, tensor) == data[i]);
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace strata::test
