// Split sets: which files belong together, and what is refused. Ids: S.. of the project's catalogue of faults.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "gguf/gguf_builder.h"
#include "gguf/split.h"
#include "gguf/support.h"

namespace strata::test {
namespace {

using std::string;

GgufBuilder part(uint16_t index, uint16_t count, int32_t total) {
  GgufBuilder builder;
  if (index == 0) builder.string("general.architecture", "llama").u32("llama.block_count", 2);
  return builder.split(index, count, total);
}

TensorSpec numbered(string name, uint8_t fill) {
  return {.name = std::move(name), .ne = {8}, .data = std::vector<std::byte>(32, std::byte{fill})};
}

string part_name(int number, int count, const string& stem = "big") {
  return gguf::split_file_name(stem, number, count);
}

// Three parts whose tensors are not in the order of the layers; the first has an alignment of its own.
Files three_parts() {
  GgufBuilder first = part(0, 3, 4);
  first.set_alignment(64).tensor(numbered("blk.1.up", 1));
  GgufBuilder second = part(1, 3, 4);
  second.tensor(numbered("output", 2)).tensor(numbered("blk.0.up", 3));
  GgufBuilder third = part(2, 3, 4);
  third.tensor(numbered("blk.0.down", 4));
  return {{part_name(1, 3), first.bytes()}, {part_name(2, 3), second.bytes()}, {part_name(3, 3), third.bytes()}};
}

void expect_three_parts(const OpenResult& opened) {
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const gguf::Model& model = **opened;
  EXPECT_EQ(model.path(), "/models/" + part_name(1, 3));
  EXPECT_EQ(model.require_int("llama.block_count", 1, 10).value(), 2);
  ASSERT_EQ(model.shards().size(), 3u);
  EXPECT_EQ(model.shards()[0].alignment, 64u);
  EXPECT_EQ(model.shards()[2].alignment, 32u);
  const std::vector<std::pair<string, int>> expected = {
      {"blk.1.up", 0}, {"output", 1}, {"blk.0.up", 1}, {"blk.0.down", 2}};
  ASSERT_EQ(model.tensors().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const gguf::TensorInfo& tensor = model.tensors()[i];
    EXPECT_EQ(tensor.name, expected[i].first);
    EXPECT_EQ(tensor.shard, expected[i].second);
    std::vector<std::byte> bytes(tensor.bytes);
    ASSERT_TRUE(model.read(tensor, 0, bytes).ok());
    EXPECT_EQ(bytes, std::vector<std::byte>(32, static_cast<std::byte>(i + 1)));
  }
  walk(model);
}

TEST(SplitSetTest, S01_S02_AnyPartAndTheFolderOpenTheSameModel) {
  const Files files = three_parts();
  for (int number = 1; number <= 3; ++number) {
    SCOPED_TRACE(number);
    expect_three_parts(open_files(files, "/models/" + part_name(number, 3)));
  }
  expect_three_parts(open_files(files, "/models"));
  // The other files of the folder are not looked at.
  Files others = files;
  others["README.md"] = {};
  others["._" + part_name(1, 3)] = {};
  expect_three_parts(open_files(others, "/models"));
}

TEST(SplitSetTest, TheFirstPartMayHaveNoTensors) {
  GgufBuilder second = part(1, 2, 1);
  second.tensor(numbered("a", 1));
  const Files files = {{part_name(1, 2), part(0, 2, 1).bytes()}, {part_name(2, 2), second.bytes()}};
  const OpenResult opened = open_files(files, "/models/" + part_name(2, 2));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->find_tensor("a")->shard, 1);
}

TEST(SplitSetTest, S05_OnlyTheExactStemAndTotalBelongTogether) {
  Files files = three_parts();
  for (const auto& name : {part_name(1, 3, "big-2"), part_name(2, 5), part_name(1, 1), string("big.gguf")}) {
    files[name] = ByteString().text("garbage").bytes();
  }
  expect_three_parts(open_files(files, "/models/" + part_name(1, 3)));
  expect_error(open_files(files, "/models"), ErrorCode::kBadInput,
               {"5 models in this folder", "big.gguf", "big-*-of-00003.gguf (3 of 3 files)",
                "big-2-*-of-00003.gguf (1 of 3 files)", "big-*-of-00005.gguf (1 of 5 files)"});
}

TEST(SplitSetTest, S05_AFolderOfManyModelsIsListedInBrief) {
  Files files;
  for (int i = 0; i < 100; ++i) files["m" + std::to_string(i) + ".gguf"] = {};
  expect_error(open_files(files, "/models"), ErrorCode::kBadInput, {"100 models", "m0.gguf", "and 92 more"});
}

TEST(SplitSetTest, AFolderWithOneModelOpens) {
  Files files = {{"only.gguf", part(0, 1, 0).bytes()}, {"notes.txt", {}}};
  EXPECT_TRUE(open_files(files, "/models").ok());
  EXPECT_TRUE(open_files(files, "/models/").ok());
}

TEST(SplitSetTest, AFolderWithoutModelsIsAnError) {
  expect_error(open_files({{"notes.txt", {}}}, "/models"), ErrorCode::kNotFound, {"/models", "no .gguf file"});
}

TEST(SplitSetTest, NothingAtThePath) {
  expect_error(open_files(three_parts(), "/models/other.gguf"), ErrorCode::kNotFound, {"/models/other.gguf"});
  expect_error(open_files(three_parts(), "/models/" + part_name(1, 7)), ErrorCode::kNotFound, {part_name(1, 7)});
}

TEST(SplitSetTest, R28_MissingPartsAreNamed) {
  Files files = three_parts();
  files.erase(part_name(2, 3));
  for (const string& path : {"/models/" + part_name(1, 3), string("/models")}) {
    expect_error(open_files(files, path), ErrorCode::kNotFound, {"1 of the 3 files", part_name(2, 3)});
  }
  const Files one_of_1000 = {{part_name(7, 1000), part(6, 1000, 1).bytes()}};
  expect_error(open_files(one_of_1000, "/models/" + part_name(7, 1000)), ErrorCode::kNotFound,
               {"999 of the 1000 files", "and 991 more"});
}

TEST(SplitSetTest, R28_TooManyParts) {
  for (const int count : {1001, 65535, 99999}) {
    const Files files = {{part_name(1, count), part(0, 0, 1).bytes()}};
    expect_error(open_files(files, "/models/" + part_name(1, count)), ErrorCode::kBadInput, {"at most 1000"});
  }
}

TEST(SplitSetTest, S04_PartsOfAnotherSetAreRefused) {
  struct Row {
    const char* what;
    int number;  // the part that is replaced
    GgufBuilder replacement;
    std::vector<string> pieces;
  };
  const auto with = [](GgufBuilder builder, std::initializer_list<const char*> names) {
    for (const char* name : names) builder.tensor(numbered(name, 9));
    return builder;
  };
  const Row rows[] = {
      {"count", 2, with(part(1, 5, 4), {"x", "y"}), {"split.count", "is 5, expected 3"}},
      {"count 0", 2, with(part(1, 0, 4), {"x", "y"}), {"split.count", "is 0, expected 3"}},
      {"number", 2, with(part(2, 3, 4), {"x", "y"}), {"split.no", "is 2, expected 1"}},
      {"1-based number", 1, with(part(1, 3, 4), {"x"}), {"split.no", "is 1, expected 0"}},
      {"announced total", 3, with(part(2, 3, 7), {"x"}), {"split.tensors.count", "is 7, expected 4"}},
      {"sum of tensors", 3, with(part(2, 3, 4), {"x", "y"}), {"split.tensors.count", "is 4", "hold 5 tensors"}},
      {"name of another part", 3, with(part(2, 3, 4), {"blk.1.up"}), {"tensor 'blk.1.up' is also in", part_name(1, 3)}},
      {"no split keys", 2, with(GgufBuilder(), {"x", "y"}), {"'split.count' is missing"}},
      {"no number", 2, with(GgufBuilder().u16("split.count", 3), {"x", "y"}), {"'split.no' is missing"}},
      {"no total", 1, with(GgufBuilder().u16("split.count", 3).u16("split.no", 0), {"x"}),
       {"'split.tensors.count' is missing"}},
      {"count is text", 2, with(GgufBuilder().string("split.count", "3"), {"x"}), {"'split.count' is a string"}},
      {"count is an array", 2, with(GgufBuilder().array("split.count", 4, 1, ByteString().u32(3)), {"x"}),
       {"is an array"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Files files = three_parts();
    files[part_name(row.number, 3)] = row.replacement.bytes();
    const OpenResult result = open_files(files, "/models");
    expect_error(result, ErrorCode::kBadInput, {"/models/big-"});
    if (result.ok()) continue;
    for (const string& piece : row.pieces) EXPECT_THAT(result.error().message, testing::HasSubstr(piece));
  }
}

TEST(SplitSetTest, OnlyTheFirstPartMustAnnounceTheTotal) {
  GgufBuilder third;
  third.u16("split.count", 3).u16("split.no", 2).tensor(numbered("blk.0.down", 4));
  Files files = three_parts();
  files[part_name(3, 3)] = third.bytes();
  expect_three_parts(open_files(files, "/models"));
}

TEST(SplitSetTest, IntegerTypesOfOtherWritersAreFine) {
  GgufBuilder first, second;
  first.u32("split.no", 0).i64("split.count", 2).u64("split.tensors.count", 1);
  second.u8("split.no", 1).i32("split.count", 2).u16("split.tensors.count", 1).tensor(numbered("a", 1));
  const Files files = {{part_name(1, 2), first.bytes()}, {part_name(2, 2), second.bytes()}};
  const OpenResult opened = open_files(files, "/models");
  EXPECT_TRUE(opened.ok()) << opened.error().message;
}

TEST(SplitSetTest, S08_NamesThatLookLikeParts) {
  const auto whole = GgufBuilder().tensor(numbered("a", 1)).bytes();
  const Files files = {{"best-of-breed.gguf", whole},
                       {"x-00000-of-00002.gguf", whole},
                       {"x-00003-of-00002.gguf", whole},
                       {"x-00000-of-00000.gguf", whole},
                       {"x-00001-of-00001.gguf", whole},
                       {"x-0001-of-00002.gguf", whole}};
  for (const char* name : {"best-of-breed.gguf", "x-00001-of-00001.gguf", "x-0001-of-00002.gguf"}) {
    const OpenResult opened = open_files(files, string("/models/") + name);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->shards().size(), 1u);
  }
  for (const char* name : {"x-00000-of-00002.gguf", "x-00003-of-00002.gguf", "x-00000-of-00000.gguf"}) {
    expect_error(open_files(files, string("/models/") + name), ErrorCode::kBadInput, {name, "numbered from 1"});
  }
}

TEST(SplitSetTest, S08_ASingleFileMayHaveSplitKeys) {
  for (const uint16_t count : {0, 1}) {
    const auto bytes = part(0, count, 0).bytes();
    EXPECT_TRUE(open_files({{"x.gguf", bytes}}, "/models/x.gguf").ok());
    EXPECT_TRUE(open_files({{"x-00001-of-00001.gguf", bytes}}, "/models/x-00001-of-00001.gguf").ok());
  }
  expect_error(open_files({{"x-00001-of-00001.gguf", part(0, 3, 0).bytes()}}, "/models"), ErrorCode::kBadInput,
               {"split.count' is 3, expected 1"});
  expect_error(open_files({{"x-00001-of-00001.gguf", part(1, 1, 0).bytes()}}, "/models"), ErrorCode::kBadInput,
               {"split.no' is 1, expected 0"});
}

TEST(SplitSetTest, APartUnderAnotherNameOpensNothingElse) {
  Files files = three_parts();
  files["first.gguf"] = files[part_name(1, 3)];
  expect_error(open_files(files, "/models/first.gguf"), ErrorCode::kBadInput,
               {"one of 3 files", "NAME-00001-of-00003.gguf"});
}

TEST(SplitSetTest, ErrorsNameThePartTheyAreIn) {
  Files files = three_parts();
  files[part_name(2, 3)].resize(200);
  expect_error(open_files(files, "/models/" + part_name(1, 3)), ErrorCode::kBadInput,
               {part_name(2, 3), "bytes are missing"});
}

TEST(SplitSetTest, TheKindIsThatOfTheFirstPart) {
  Files files = three_parts();
  GgufBuilder first = part(0, 3, 4);
  first.string("general.type", "mmproj").tensor(numbered("blk.1.up", 1));
  files[part_name(1, 3)] = first.bytes();
  expect_error(open_files(files, "/models"), ErrorCode::kUnsupported, {part_name(1, 3), "'mmproj'"});
}

// Each part is opened once, and reading it is what costs reads: a set is not walked twice.
TEST(SplitSetTest, ReadErrorsOfAnyPartAreReported) {
  MemoryFileSystem memory;
  add_files(memory, three_parts());
  ManualClock clock;
  FaultyFileSystem sound(memory, clock, {});
  ASSERT_TRUE(gguf::Model::open("/models", sound).ok());
  ASSERT_EQ(sound.n_reads(), 3u);
  for (uint64_t n = 0; n < 3; ++n) {
    FaultPlan plan;
    plan.at.push_back({n, Fault::kIoError});
    FaultyFileSystem faulty(memory, clock, plan);
    expect_error(gguf::Model::open("/models", faulty), ErrorCode::kIo, {part_name(static_cast<int>(n) + 1, 3)});
  }
}

TEST(SplitNameTest, IsParsedExactly) {
  const auto name = gguf::parse_split_name("big-v1.5-00002-of-00013.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->stem, "big-v1.5");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 13);
  EXPECT_TRUE(name->valid());
  EXPECT_EQ(gguf::split_file_name(name->stem, name->number, name->count), "big-v1.5-00002-of-00013.gguf");

  EXPECT_TRUE(gguf::parse_split_name("-00001-of-00001.gguf")->valid());
  EXPECT_FALSE(gguf::parse_split_name("x-00000-of-00001.gguf")->valid());
  EXPECT_FALSE(gguf::parse_split_name("x-00002-of-00001.gguf")->valid());
  for (const char* plain : {"", ".gguf", "x.gguf", "x-00001-of-00002", "x-00001-of-00002.GGUF", "x-0001-of-00002.gguf",
                            "x-000001-of-000002.gguf", "x-00001-of-0000a.gguf", "x-0000:-of-00002.gguf",
                            "x-00001of-00002.gguf", "x-00001-of00002.gguf", "x_00001-of-00002.gguf",
                            "00001-of-00002.gguf",
                            "x-00001-of-00002.gguf.part1of2", "x-00001-of-+0002.gguf", "x-00001-of- 0002.gguf"}) {
    const auto parsed = gguf::parse_split_name(plain);
    EXPECT_FALSE(parsed.has_value()) << plain;
  }
}

TEST(DerivedNameTest, S07_NeverHasTheSplitPattern) {
  EXPECT_EQ(gguf::derived_name("/m/big-00001-of-00013.gguf", "-q4.gguf"), "/m/big-q4.gguf");
  EXPECT_EQ(gguf::derived_name("big.gguf", ".pack"), "big.pack");
  EXPECT_EQ(gguf::derived_name("/m.gguf/big", ".pack"), "/m.gguf/big.pack");
  const char* stems[] = {"x", "x-00001-of-00002", "x-00001-of-00002-00001-of-00001", "", "-00001-of-00002",
                         "x-00001-of"};
  const char* endings[] = {".gguf", "-00001-of-00013.gguf", "", ".bin"};
  const char* suffixes[] = {".gguf", "-00001-of-00001.gguf", "-00002.gguf", "", "-q4_k_m.gguf", "-of-00002.gguf"};
  for (const char* folder : {"", "/d/", "/e-00001-of-00002.gguf/"}) {
    for (const char* stem : stems) {
      for (const char* ending : endings) {
        for (const char* suffix : suffixes) {
          const string derived = gguf::derived_name(string(folder) + stem + ending, suffix);
          EXPECT_FALSE(gguf::parse_split_name(gguf::file_name_of(derived))) << derived;
          EXPECT_EQ(gguf::directory_of(derived), folder);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
