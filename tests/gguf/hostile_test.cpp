// One hostile or broken file per row. Ids: G.. is the number of the fault in the project's catalogue of faults seen in
// engines of this kind, R.. the row of its list of attacks on the container.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gguf/allocation_meter.h"
#include "gguf/gguf_builder.h"
#include "gguf/support.h"

namespace strata::test {
namespace {

using std::string;
constexpr uint64_t kPow31 = uint64_t{1} << 31;
constexpr uint64_t kPow32 = uint64_t{1} << 32;
constexpr uint64_t kPow62 = uint64_t{1} << 62;
constexpr uint64_t kPow63 = uint64_t{1} << 63;

struct HostileFile {
  string name;
  std::vector<std::byte> bytes;
  std::vector<string> pieces;  // of the message
  ErrorCode code = ErrorCode::kBadInput;
};

void PrintTo(const HostileFile& file, std::ostream* out) { *out << file.name; }

GgufBuilder plain() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  return builder;
}

GgufBuilder with_tensor(TensorSpec spec) { return plain().tensor(std::move(spec)); }

std::vector<HostileFile> headers() {
  std::vector<HostileFile> files;
  const auto whole = plain().bytes();
  for (const size_t n : {0, 3, 4, 8, 12, 20, 23}) {
    files.push_back({"G08_R1_size_" + std::to_string(n), {whole.begin(), whole.begin() + static_cast<long>(n)},
                     {"file too short", std::to_string(n) + " bytes"}});
  }
  GgufBuilder magic = plain();
  magic.magic = "GGUG";
  files.push_back({"R1_magic", magic.bytes(), {"not a GGUF file", "byte 0"}});

  const auto version = [&](const char* name, uint32_t value, std::vector<string> pieces) {
    GgufBuilder builder = plain();
    builder.version = value;
    files.push_back({name, builder.bytes(), std::move(pieces), ErrorCode::kUnsupported});
  };
  version("R2_version_0", 0, {"version 0", "byte 4"});
  version("R2_version_1", 1, {"version 1", "obsolete"});
  version("R2_version_4", 4, {"version 4", "newer"});
  version("R2_big_endian", 0x03000000, {"big-endian", "0x03000000"});

  for (const uint64_t count : {uint64_t{1} << 60, kPow62, ~uint64_t{0}}) {
    GgufBuilder tensors = plain();
    tensors.n_tensors = count;
    files.push_back({"G14_R3_tensors_" + std::to_string(count), tensors.bytes(),
                     {std::to_string(count) + " tensors", "byte 8"}});
    GgufBuilder entries = plain();
    entries.n_entries = count;
    files.push_back({"G14_R3_entries_" + std::to_string(count), entries.bytes(),
                     {std::to_string(count) + " metadata entries", "byte 16"}});
  }
  ByteString many_tensors;
  many_tensors.text("GGUF").u32(3).u64(gguf::kMaxTensors + 1).u64(0).zeros(25 * (gguf::kMaxTensors + 1));
  files.push_back({"R3_tensors_cap", many_tensors.bytes(), {"100001 tensors", "at most 100000"}});
  ByteString many_entries;
  many_entries.text("GGUF").u32(3).u64(0).u64(gguf::kMaxEntries + 1).zeros(14 * (gguf::kMaxEntries + 1));
  files.push_back({"R3_entries_cap", many_entries.bytes(), {"10001 metadata entries", "at most 10000"}});
  // The header promises one more than there is.
  GgufBuilder one_more = plain();
  one_more.tensor({"a", {4}});
  one_more.n_tensors = 2;
  files.push_back({"G20_count_differs", one_more.bytes(), {"tensor 1"}});
  return files;
}

std::vector<HostileFile> entries() {
  const auto key_of_length = [](uint64_t claimed) {
    return plain().raw_entry(ByteString().u64(claimed).text("k").u32(0).u8(1)).bytes();
  };
  const auto value = [](uint32_t type, const ByteString& bytes) { return plain().entry("k", type, bytes).bytes(); };
  const string depth_text = "array of arrays";
  ByteString nested;
  for (int i = 0; i < 10'000; ++i) nested.u32(9).u64(1);
  ByteString many_strings;
  many_strings.u32(8).u64(gguf::kMaxStrings + 1).zeros(8 * (gguf::kMaxStrings + 1));

  std::vector<HostileFile> files = {
      {"R4_key_length_2_63", key_of_length(kPow63),
       {"metadata entry 1", "string of 9223372036854775808 bytes", "byte 69"}},
      {"R4_key_length_by_one", key_of_length(7), {"string of 7 bytes", "only 6 are left"}},
      {"R4_string_length", value(8, ByteString().u64(kPow63)), {"'k'", "string of 9223372036854775808"}},
      {"R4_string_length_by_one", value(8, ByteString().u64(3).text("ab")), {"string of 3 bytes", "only 2"}},
      {"G17_R5_empty_key", plain().raw_entry(ByteString().u64(0).u32(0).u8(1).u8(0)).bytes(), {"empty key"}},
      {"G17_37_bytes", ByteString().text("GGUF").u32(3).u64(0).u64(1).u64(0).u32(7).u8(1).bytes(),
       {"remaining 13 bytes"}},
      {"R5_duplicate_key", plain().u8("k", 1).u8("j", 1).u8("k", 2).bytes(),
       {"metadata entry 3 'k'", "second time", "entry 1"}},
      {"R5_key_too_long", plain().u8(string(65536, 'k'), 1).bytes(), {"65536 bytes", "at most 65535"}},
      {"R5_key_with_nul", plain().u8(string("a\0b", 3), 1).bytes(), {"NUL or control"}},
      {"R5_key_with_escape", plain().u8("a\x1b[2J", 1).bytes(), {"NUL or control"}},
      {"R6_value_type_13", value(13, ByteString().u64(0)), {"'k'", "unknown value type 13"}},
      {"R6_value_type_max", value(0xffffffff, ByteString().u64(0)), {"unknown value type 4294967295"}},
      {"G16_R6_nested_arrays", value(9, nested), {depth_text}},
      {"R6_empty_nested_array", value(9, ByteString().u32(9).u64(0)), {depth_text}},
      {"R6_element_type_13", value(9, ByteString().u32(13).u64(0)), {"unknown value type 13"}},
      {"R7_array_count", value(9, ByteString().u32(10).u64(uint64_t{1} << 61).u64(0)),
       {"array of 2305843009213693952 uint64"}},
      {"R7_array_count_by_one", value(9, ByteString().u32(4).u64(3).u32(1).u32(2)), {"array of 3 uint32", "8 bytes"}},
      {"R26_value_cut", plain().u32("key", 1).bytes_without_last(1), {"file ends too early: 4 bytes", "3 are left"}},
      {"R7_string_count", value(9, ByteString().u32(8).u64(2).u64(0)), {"array of 2 string"}},
      {"R7_string_element", value(9, ByteString().u32(8).u64(2).u64(1).text("a").u64(1)),
       {"string of 1 bytes, but only 0"}},
      {"R8_many_strings", value(9, many_strings), {"array of 2000001 strings", "may have 2000000"}},
      {"R9_bool_2", plain().boolean("k", 2).bytes(), {"'k'", "bool with the value 2"}},
      {"R9_bool_in_array", plain().array("k", 7, 3, ByteString().u8(0).u8(1).u8(255)).bytes(),
       {"bool with the value 255"}},
      {"R10_key_not_utf8", plain().raw_entry(ByteString().string("\xff\xc0k").u32(77).u8(1).u8(1)).bytes(),
       {"'??k'", "unknown value type 77"}},
      {"R11_alignment_u64", plain().u64("general.alignment", 32).bytes(), {"general.alignment", "is a uint64"}},
      {"G07_R11_alignment_i32", plain().i32("general.alignment", -32).bytes(), {"is a int32"}},
  };
  for (const uint32_t alignment : {0u, 3u, 33u, 131072u, 0x80000000u, 0xffffffe0u}) {
    files.push_back({"G07_R11_alignment_" + std::to_string(alignment),
                     plain().u32("general.alignment", alignment).bytes(),
                     {"metadata entry 1 'general.alignment'", "alignment " + std::to_string(alignment), "1..65536"}});
  }
  return files;
}

std::vector<HostileFile> tensor_infos() {
  const auto shape = [](std::vector<uint64_t> ne, uint32_t type = 0) {
    return with_tensor({"t", std::move(ne), type}).bytes();
  };
  const auto dims = [](uint32_t n) { return with_tensor({.name = "t", .ne = {1, 1, 1, 1}, .n_dims = n}).bytes(); };
  const string zero = "dimension must be positive";
  const string large = "tensor too large";
  std::vector<HostileFile> files = {
      {"R12_empty_name", with_tensor({"", {4}}).bytes(), {"tensor 0", "empty name"}},
      {"R12_duplicate_name", with_tensor({"a", {4}}).tensor({"b", {4}}).tensor({"a", {8}}).bytes(),
       {"tensor 2 'a'", "second time", "tensor 0"}},
      {"R12_name_of_64", with_tensor({string(64, 'n'), {4}}).bytes(), {"name of 64 bytes", "at most 63"}},
      {"R12_name_length_2_62",
       ByteString().text("GGUF").u32(3).u64(1).u64(0).u64(kPow62).text("name").zeros(40).bytes(),
       {"tensor 0", "string of 4611686018427387904 bytes"}},
      {"R12_name_with_nul", with_tensor({string("a\0x", 3), {4}}).tensor({string("a\0y", 3), {4}}).bytes(),
       {"tensor 0 'a?x'", "NUL"}},
      {"R14_n_dims_5", dims(5), {"5 dimensions", "at most 4"}},
      {"R14_n_dims_max", dims(0xffffffff), {"4294967295 dimensions"}},
      {"G05_R15_zero_second", shape({4, 0}), {zero, "dimension 1 is 0"}},
      {"G05_R15_zero_first", shape({0}), {zero}},
      {"G05_R15_zero_last", shape({1, 1, 1, 0}), {zero, "dimension 3"}},
      {"R16_top_bit", shape({kPow63}), {zero, "-9223372036854775808"}},
      {"R16_all_bits", shape({4, ~uint64_t{0}}), {zero, "dimension 1 is -1"}},
      {"R17_product_is_2_64", shape({kPow32, kPow32}), {large, "[4294967296, 4294967296] F32"}},
      {"R17_four_times_2_31", shape({kPow31, kPow31, kPow31, kPow31}), {large}},
      {"G02_product_f16", shape({kPow31, kPow31, 4}, 1), {large}},
      {"G02_product_wraps_to_1", shape({274177, 67280421310721}), {large}},
      {"G02_product_wraps_to_1_bytes", shape({274177, 67280421310721}, 24), {large}},
      {"R17_elements_wrap_but_not_bytes", shape({kPow32, kPow32}, 2), {large, "Q4_0"}},
      {"G02_bytes_wrap", shape({kPow62, 1, 2}), {large}},
      {"G02_bytes_wrap_in_row", shape({kPow62 + 1}), {large}},
      {"G04_padding_wraps", shape({kPow62 - 1}), {large}},
      {"R18_not_a_block", shape({33}, 2), {"rows of 33 elements", "Q4_0 needs a multiple of 32"}},
      {"R18_scalar_of_blocks", shape({}, 12), {"rows of 1 elements", "Q4_K"}},
      {"R18_half_superblock", shape({128, 2}, 14), {"Q6_K needs a multiple of 256"}},
      {"R20_q8_1", shape({32}, 9), {"type 9 (Q8_1)", "not allowed"}},
      {"R20_q8_k", shape({256}, 15), {"type 15 (Q8_K)", "not allowed"}},
  };

  struct Removed {
    uint32_t id;
    const char* name;
  };
  for (const auto& [id, name] : {Removed{4, "Q4_2"}, {5, "Q4_3"}, {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"},
                                 {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}}) {
    files.push_back({"R19_removed_" + std::to_string(id), shape({256}, id),
                     {"tensor 0 't'", "type " + std::to_string(id), name, "removed"}, ErrorCode::kUnsupported});
  }
  for (const uint32_t id : {43u, 145u, 1000u, 0x7fffffffu, 0xffffffffu}) {
    files.push_back({"G13_R19_unknown_" + std::to_string(id), shape({256}, id),
                     {"tensor 0 't'", "unknown type " + std::to_string(id)}, ErrorCode::kUnsupported});
  }
  return files;
}

std::vector<HostileFile> data_positions() {
  const auto at = [](uint64_t offset) { return with_tensor({.name = "t", .ne = {4}, .offset = offset}).bytes(); };
  const auto two = [](std::optional<uint64_t> a, std::optional<uint64_t> b) {
    return with_tensor({.name = "a", .ne = {16}, .offset = a}).tensor({.name = "b", .ne = {16}, .offset = b}).bytes();
  };
  const GgufBuilder cut = plain().tensor({"a", {8}}).tensor({"b", {8}});  // 32 bytes each
  const auto whole = cut.bytes();
  const auto first = [&](size_t n) {
    return std::vector<std::byte>(whole.begin(), whole.begin() + static_cast<long>(n));
  };
  const string real_size = std::to_string(whole.size());
  return {
      {"R21_offset_1", at(1), {"tensor 0 't'", "offset 1", "alignment 32"}},
      {"R21_offset_16", at(16), {"offset 16"}},
      {"R21_offset_32_of_64", plain().set_alignment(64).tensor({.name = "t", .ne = {4}, .offset = 32}).bytes(),
       {"offset 32", "alignment 64"}},
      {"G20_R22_offset_2_40", at(uint64_t{1} << 40), {"tensor 0 't'", "bytes are missing"}},
      {"G20_R22_offset_near_the_end", at(~uint64_t{0} - 4095), {"tensor 0 't'", "bytes are missing"}},
      {"G20_R22_offset_wraps", at(~uint64_t{0} - 31), {"tensor 0 't'", "does not fit 64 bits"}},
      {"G20_R22_end_wraps", at(~uint64_t{0} - 127), {"tensor 0 't'", "does not fit 64 bits"}},
      {"G20_R22_one_byte_too_long", with_tensor({.name = "t", .ne = {33}, .type = 24,
                                                 .data = std::vector<std::byte>(32)}).bytes(), {"1 bytes are missing"}},
      {"G20_R22_huge_but_no_wrap", with_tensor({"t", {kPow32, kPow31 - 1}, 24}).bytes(), {"bytes are missing"}},
      {"G01_sum_of_sizes_wraps",
       with_tensor({.name = "a", .ne = {kPow62 / 2}})
           .tensor({.name = "b", .ne = {kPow62 / 2 + 8}, .offset = kPow63}).bytes(),
       {"tensor 1 'b'", "does not fit 64 bits"}},
      {"R24_same_range", two(0, 0), {"tensor 1 'b'", "overlaps tensor 'a'"}},
      {"R24_overlap", two(0, 32), {"overlaps tensor 'a'", "found offset 32, expected at least 64"}},
      {"R24_overlap_other_order", two(32, 0), {"tensor 0 'a'", "overlaps tensor 'b'"}},
      {"G23_type_with_larger_blocks",
       with_tensor({.name = "a", .ne = {256, 2}, .type = 14, .data = std::vector<std::byte>(288)})
           .tensor({.name = "b", .ne = {256}, .type = 14}).bytes(),
       {"tensor 1 'b'", "overlaps tensor 'a' (Q6_K [256, 2], 420 bytes)", "found offset 288, expected at least 448"}},
      {"G22_R26_cut_by_1", first(whole.size() - 1), {"1 bytes are missing", real_size, "tensor 1 'b'"}},
      {"G22_R26_cut_data_in_half", first(whole.size() - 32), {"32 bytes are missing"}},
      {"G22_R23_cut_after_infos", first(cut.data_offset() - 3), {"67 bytes are missing"}},
      {"G22_R26_cut_after_header", first(24), {"header claims 2 tensors"}},
      {"G22_R26_cut_in_entry", first(60), {"more than the remaining"}},
  };
}

std::vector<HostileFile> kinds() {
  return {
      {"adapter", plain().string("general.type", "adapter").bytes(),
       {"general.type", "'adapter'"}, ErrorCode::kUnsupported},
      {"mmproj", plain().string("general.type", "mmproj").bytes(), {"'mmproj'"}, ErrorCode::kUnsupported},
      {"kind_prefix", plain().string("general.type", string("model\0", 6)).bytes(),
       {"'model?'"}, ErrorCode::kUnsupported},
      {"kind_number", plain().u32("general.type", 1).bytes(), {"general.type", "is a uint32, not a string"}},
      {"kind_array", plain().strings("general.type", {"model"}).bytes(), {"general.type", "array"}},
  };
}

std::vector<HostileFile> all_files() {
  std::vector<HostileFile> all;
  for (const auto& group : {headers(), entries(), tensor_infos(), data_positions(), kinds()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

class HostileFileTest : public testing::TestWithParam<HostileFile> {};

TEST_P(HostileFileTest, IsRefusedWithOneClearLine) {
  MemoryFileSystem system;
  system.add_file("/models/m.gguf", GetParam().bytes);
  uint64_t allocated = 0;
  const OpenResult result = [&] {
    const AllocationMeter meter;
    auto opened = gguf::Model::open("/models/m.gguf", system);
    allocated = meter.total_bytes();
    return opened;
  }();
  expect_error(result, GetParam().code, {"/models/m.gguf: "});
  if (result.ok()) return;
  for (const string& piece : GetParam().pieces) EXPECT_THAT(result.error().message, testing::HasSubstr(piece));
  // The metadata bytes once, and what a message and some bookkeeping need: never what a field of the file claims.
  EXPECT_LE(allocated, GetParam().bytes.size() + 128 * kKiB);
}

INSTANTIATE_TEST_SUITE_P(Files, HostileFileTest, testing::ValuesIn(all_files()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace strata::test
