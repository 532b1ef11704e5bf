// Recordings of routings: what steps say is read again as it was; damaged files are refused without harm.
#include "experts/routing_file.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/file_sim.h"
#include "experts/support.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using experts::kNoExpert;
using experts::RoutedModel;
using experts::RoutingBlock;
using experts::RoutingReader;
using experts::RoutingRecorder;

const RoutedModel kModel{"Tiny MoE", 3, 8};

// Steps of any ids, as the dispatch tells of them.
class Steps {
 public:
  explicit Steps(RoutingRecorder& recorder) : recorder_(recorder) {
    ids_ = device_.allocate_host(64 * sizeof(int32_t), device::MemoryKind::kPageable, "ids").value();
  }
  // Two experts a row, from `first` on.
  void tell(int32_t layer, int64_t rows, int32_t first) {
    {
      const auto ids = ids_->write<int32_t>(0, static_cast<size_t>(2 * rows));
      for (size_t i = 0; i < ids.span().size(); i++) ids[i] = (first + static_cast<int32_t>(i)) % 8;
    }
    recorder_.routed(layer, device::view_of<int32_t>(*ids_, rows, 2));
  }

 private:
  RoutingRecorder& recorder_;
  device::host::HostDevice device_{host_options()};
  std::unique_ptr<device::HostBuffer> ids_;
};

std::vector<uint16_t> row(const RoutingBlock& block, int32_t layer, int64_t r) {
  const auto ids = block.row(layer, r);
  return {ids.begin(), ids.end()};
}

TEST(RoutingFile, RecordsTheStepsThatSucceed) {
  const TempDir dir;
  const std::string path = dir.file("a.routings");
  RoutingRecorder recorder(kModel, 2, 16, path);
  ASSERT_TRUE(recorder.open().ok());
  Steps steps(recorder);
  steps.tell(0, 3, 0);
  steps.tell(2, 3, 1);  // the middle layer has no experts
  ASSERT_TRUE(recorder.write_step().ok());
  steps.tell(0, 5, 7);  // this step fails
  steps.tell(0, 1, 4);
  steps.tell(2, 1, 5);
  ASSERT_TRUE(recorder.write_step().ok());
  ASSERT_TRUE(recorder.write_step().ok()) << "nothing is left to write";
  EXPECT_EQ(recorder.n_rows(), 4);
  EXPECT_FALSE(real_file_system().exists(path));
  ASSERT_TRUE(recorder.commit().ok());

  const auto reader = RoutingReader::open(real_file_system(), path).value();
  EXPECT_EQ(reader->model(), kModel);
  EXPECT_EQ(reader->n_used(), 2);
  RoutingBlock block;
  ASSERT_TRUE(reader->next(block).value());
  EXPECT_EQ(block.n_rows, 3);
  EXPECT_EQ(row(block, 0, 0), (std::vector<uint16_t>{0, 1}));
  EXPECT_EQ(row(block, 0, 2), (std::vector<uint16_t>{4, 5}));
  EXPECT_EQ(row(block, 1, 1), (std::vector<uint16_t>{kNoExpert, kNoExpert}));
  EXPECT_EQ(row(block, 2, 2), (std::vector<uint16_t>{5, 6}));
  ASSERT_TRUE(reader->next(block).value());
  EXPECT_EQ(block.n_rows, 1);
  EXPECT_EQ(row(block, 0, 0), (std::vector<uint16_t>{4, 5}));
  EXPECT_FALSE(reader->next(block).value());
}

std::string recorded() {
  const TempDir dir;
  RoutingRecorder recorder(kModel, 2, 16, dir.file("a"));
  EXPECT_TRUE(recorder.open().ok());
  Steps steps(recorder);
  for (const int64_t rows : {3, 1, 2}) {
    for (int32_t layer = 0; layer < 3; layer++) steps.tell(layer, rows, layer);
    EXPECT_TRUE(recorder.write_step().ok());
  }
  EXPECT_TRUE(recorder.commit().ok());
  const std::vector<uint8_t> bytes = read_bytes(dir.file("a"));
  return {bytes.begin(), bytes.end()};
}

// Reads all of it: the rows, or the refusal.
Result<int64_t> read_all(const std::string& file) {
  MemoryFileSystem files;
  const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
  files.add_file("/a.routings", {bytes, bytes + file.size()});
  ASSIGN_OR_RETURN(const auto reader, RoutingReader::open(files, "/a.routings"));
  RoutingBlock block;
  int64_t rows = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->next(block));
    if (!more) return rows;
    rows += block.n_rows;
  }
}

void put(std::string& file, size_t at, uint32_t value) { std::memcpy(file.data() + at, &value, sizeof value); }

TEST(RoutingFile, WhatIsWrongIsSaid) {
  const std::string good = recorded();
  EXPECT_EQ(read_all(good).value(), 6);
  const size_t first_block = 28 + kModel.name.size();
  const struct {
    size_t at;
    uint32_t value;
    const char* says;
  } cases[] = {{0, 0, "first bytes"},        {8, 2, "version is 2"},          {12, 0, "0 layers"},
               {12, 4097, "4097 layers"},    {12, 0x80000000, "layers"},      {16, 1, "2 of them used"},
               {16, 65536, "65536 experts"}, {20, 0, "0 of them used"},       {24, 513, "name of 513"},
               {24, 0xffffffff, "name of"},  {first_block, 0, "of 0 rows"},   {first_block, 65537, "65537 rows"},
               {first_block, 60, "60 rows"}, {first_block + 4, 8, "expert 8"}};
  for (const auto& c : cases) {
    std::string bad = good;
    put(bad, c.at, c.value);
    expect_error(read_all(bad), ErrorCode::kBadInput, {"a.routings", c.says});
  }
  for (size_t n = 0; n < good.size(); n++) {
    const auto rows = read_all(good.substr(0, n));
    EXPECT_TRUE(!rows.ok() || *rows < 6) << n;
  }
}

RC_GTEST_PROP(RoutingFileProperty, DamagedFilesDoNoHarm, ()) {
  static const std::string good = recorded();
  std::string bad = good;
  for (int i = *rc::gen::inRange(1, 6); i > 0; i--) {
    bad[*rc::gen::inRange<size_t>(0, bad.size())] = *rc::gen::arbitrary<char>();
  }
  const auto rows = read_all(bad);
  if (!rows.ok()) RC_ASSERT(rows.error().code == ErrorCode::kBadInput);
}

}  // namespace
}  // namespace strata::test
