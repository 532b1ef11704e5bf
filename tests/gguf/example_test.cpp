// The smallest complete example of the format, typed in byte by byte: whole, cut anywhere, and with any byte changed.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gguf/allocation_meter.h"
#include "gguf/gguf_builder.h"
#include "gguf/support.h"

namespace strata::test {
namespace {

constexpr size_t kDataOffset = 160;
constexpr size_t kEndOfData = 272;  // of tensor b; 16 bytes of fill follow

// One entry and two tensors, `a` Q8_0 {32, 2} and `b` F32 {4}.
std::vector<std::byte> example(uint8_t version) {
  static const uint8_t kHead[kDataOffset] = {
      0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0,                                 // magic, version
      2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,                     // tensors, entries
      0x14, 0, 0, 0, 0, 0, 0, 0,                                          // key length
      'g', 'e', 'n', 'e', 'r', 'a', 'l', '.', 'a', 'r', 'c', 'h', 'i', 't', 'e', 'c', 't', 'u', 'r', 'e',
      8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 'l', 'l', 'a', 'm', 'a',        // string "llama"
      1, 0, 0, 0, 0, 0, 0, 0, 'a', 2, 0, 0, 0,                            // name, dimensions
      0x20, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,                  // 32, 2
      8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                 // Q8_0 at 0
      1, 0, 0, 0, 0, 0, 0, 0, 'b', 1, 0, 0, 0,                            // name, dimensions
      4, 0, 0, 0, 0, 0, 0, 0,                                             // 4
      0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0};                             // F32 at 96; then fill
  std::vector<std::byte> file(288);
  std::memcpy(file.data(), kHead, sizeof(kHead));
  file[4] = std::byte{version};
  for (size_t i = 0; i < 68; ++i) file[kDataOffset + i] = static_cast<std::byte>(i + 1);
  for (size_t i = 0; i < 16; ++i) file[kDataOffset + 96 + i] = static_cast<std::byte>(0xf0 + i);
  return file;
}

class ExampleTest : public testing::TestWithParam<uint8_t> {};  // the version

TEST_P(ExampleTest, IsReadAsWritten) {
  const OpenResult opened = open_bytes(example(GetParam()));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const gguf::Model& model = **opened;

  ASSERT_EQ(model.shards().size(), 1u);
  EXPECT_EQ(model.shards()[0].version, GetParam());
  EXPECT_EQ(model.shards()[0].alignment, 32u);
  EXPECT_EQ(model.shards()[0].data_offset, kDataOffset);
  EXPECT_EQ(model.shards()[0].file_bytes, 288u);
  EXPECT_EQ(model.path(), "/models/m.gguf");
  ASSERT_EQ(model.entries().size(), 1u);
  EXPECT_EQ(model.require_string("general.architecture").value(), "llama");

  ASSERT_EQ(model.tensors().size(), 2u);
  const gguf::TensorInfo& a = model.tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, quant::Type::Q8_0);
  EXPECT_EQ(a.n_dims, 2);
  EXPECT_EQ(a.ne[0], 32u);
  EXPECT_EQ(a.ne[1], 2u);
  EXPECT_EQ(a.ne[2], 1u);
  EXPECT_EQ(a.ne[3], 1u);
  EXPECT_EQ(a.n_elements, 64u);
  EXPECT_EQ(a.row_bytes, 34u);
  EXPECT_EQ(a.bytes, 68u);
  EXPECT_EQ(a.file_offset, kDataOffset);
  const gguf::TensorInfo& b = model.tensors()[1];
  EXPECT_EQ(b.type, quant::Type::F32);
  EXPECT_EQ(b.bytes, 16u);
  EXPECT_EQ(b.file_offset, kDataOffset + 96);

  std::array<std::byte, 2> ends;
  ASSERT_TRUE(model.read(a, 66, ends).ok());
  EXPECT_EQ(ends[1], std::byte{68});
  ASSERT_TRUE(model.read(b, 0, ends).ok());
  EXPECT_EQ(ends[0], std::byte{0xf0});
  EXPECT_EQ(walk(model), 3u);
}

TEST_P(ExampleTest, EachPrefixIsRefusedUntilTheDataIsComplete) {
  const std::vector<std::byte> whole = example(GetParam());
  for (size_t n = 0; n <= whole.size(); ++n) {
    const OpenResult opened = open_bytes({whole.begin(), whole.begin() + static_cast<long>(n)});
    ASSERT_EQ(opened.ok(), n >= kEndOfData) << n << " bytes";
    if (n >= kEndOfData) {
      walk(**opened);
    } else {
      expect_error(opened, ErrorCode::kBadInput, {"/models/m.gguf: byte "});
    }
  }
}

TEST_P(ExampleTest, AnyChangedByteIsReadOrRefusedWithoutLargeAllocations) {
  const std::vector<std::byte> whole = example(GetParam());
  size_t accepted = 0;
  for (size_t at = 0; at < kDataOffset; ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      std::vector<std::byte> bytes = whole;
      bytes[at] = static_cast<std::byte>(value);
      MemoryFileSystem system;
      system.add_file("/models/m.gguf", std::move(bytes));
      const AllocationMeter meter;
      const OpenResult opened = gguf::Model::open("/models/m.gguf", system);
      ASSERT_LT(meter.total_bytes(), 64 * kKiB) << "byte " << at << " set to " << value;
      if (!opened.ok()) continue;
      ++accepted;
      walk(**opened);
    }
  }
  // At least the unchanged file at each position; by far not everything.
  EXPECT_GT(accepted, kDataOffset);
  EXPECT_LT(accepted, kDataOffset * 256 / 2);
}

INSTANTIATE_TEST_SUITE_P(Versions, ExampleTest, testing::Values(2, 3),
                         [](const auto& tested) { return "Version" + std::to_string(tested.param); });

TEST(GgufBuilderTest, BuildsTheExample) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  std::vector<std::byte> expected = example(3);
  const auto part = [&](size_t begin, size_t n) {
    return std::vector<std::byte>(expected.begin() + static_cast<long>(begin),
                                  expected.begin() + static_cast<long>(begin + n));
  };
  builder.tensor({.name = "a", .ne = {32, 2}, .type = 8, .data = part(kDataOffset, 68)});
  builder.tensor({.name = "b", .ne = {4}, .data = part(kDataOffset + 96, 16)});
  EXPECT_EQ(builder.bytes(), expected);
  EXPECT_EQ(builder.data_offset(), kDataOffset);
}

TEST(SmallestFileTest, HasNeitherEntriesNorTensors) {
  const OpenResult opened = open_bytes(GgufBuilder().bytes());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->shards()[0].file_bytes, 24u);
  EXPECT_TRUE((*opened)->tensors().empty());
  EXPECT_EQ((*opened)->find_tensor("a"), nullptr);
  EXPECT_EQ((*opened)->find("general.architecture"), nullptr);
}

}  // namespace
}  // namespace strata::test
