// Rows of a large table from every place that they can be in: the right bytes, each read once, and failures that stay
// with the rows they befall. G22 (a file that is cut under a mapping), M18 (a disk error names file and offset; a slow
// disk is no hang).
#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "base/random.h"
#include "model/ngram_rig.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using model::RowTable;
using model::TableKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kNsPerS = 1'000'000'000;

std::vector<int64_t> some_rows(int64_t n_rows, size_t n, uint64_t seed) {
  std::vector<int64_t> rows(static_cast<size_t>(n_rows));
  for (int64_t r = 0; r < n_rows; r++) rows[static_cast<size_t>(r)] = r;
  Random random(seed);
  for (size_t i = 0; i < n; i++) std::swap(rows[i], rows[i + random.below(rows.size() - i)]);
  rows.resize(n);
  return rows;
}

class Tables : public testing::TestWithParam<const char*> {
 protected:
  const TableKind& kind() const { return *model::find_table_kind(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Tables, testing::Values("direct", "ram", "mapped"),
                         [](const auto& row) { return std::string(row.param); });

// The last want() asks for more rows than may be on their way at once.
TEST_P(Tables, RowsAreTheFilesWhateverWasWantedBefore) {
  constexpr int64_t kRows = 20'000;
  constexpr int64_t kMost = 9'000;
  TableRig rig(kRows);
  const auto table = kind().open(rig.spec(kMost)).value();
  uint64_t seed = 0;
  for (const size_t n : {1, 16, 0, 3000, 16, 9000}) {
    const std::vector<int64_t> rows = some_rows(kRows, n, ++seed);
    table->want(rows);
    EXPECT_THAT(TableRig::failed(*table, rows), IsEmpty());
    // What nobody takes is forgotten.
    table->want(some_rows(kRows, n / 2, 100 + seed));
  }
  table->want(std::vector<int64_t>{0, kRows - 1});
  EXPECT_THAT(TableRig::failed(*table, {0, kRows - 1}), IsEmpty());
}

TEST_P(Tables, TakeAsMuchMemoryAsTheySay) {
  constexpr int64_t kRows = 20'000, kMost = 9'000;
  TableRig rig(kRows);
  const uint64_t before = rig.device.used_bytes();
  const auto table = kind().open(rig.spec(kMost)).value();
  EXPECT_EQ(rig.device.used_bytes() - before, kind().bytes_needed(*rig.tensor, kMost));
  EXPECT_LE(model::kDirectTable.bytes_needed(*rig.tensor, kMost), 33 * kMiB);
}

TEST(TableKinds, HaveNames) {
  EXPECT_EQ(model::find_table_kind("direct"), &model::kDirectTable);
  EXPECT_EQ(model::find_table_kind("arena"), nullptr);
}

class DirectTable : public testing::Test {
 protected:
  void open(FileSystem& files, Clock& clock = real_clock()) {
    table_ = model::kDirectTable.open(rig_.spec(1000, files, clock)).value();
  }
  int64_t count(Counter counter) const { return rig_.stats.get(counter); }

  TableRig rig_{20'000};
  SteppedClock clock_;
  RangeFaults files_{rig_.memory_files, clock_};
  std::unique_ptr<RowTable> table_;
};

TEST_F(DirectTable, EachRowIsReadOnceAndNeighboursTogether) {
  open(rig_.memory_files);
  const std::vector<int64_t> apart = {500, 100, 19'000, 7'000};
  table_->want(apart);
  EXPECT_THAT(TableRig::failed(*table_, apart), IsEmpty());
  EXPECT_EQ(count(Counter::kNgramReads), 4);
  EXPECT_LE(count(Counter::kNgramReadBytes), 8 * 4096);
  EXPECT_EQ(count(Counter::kFileReads), 0) << "that is for experts";
  const std::vector<int64_t> neighbours = {1001, 1000, 1003, 1002};
  table_->want(neighbours);
  EXPECT_THAT(TableRig::failed(*table_, neighbours), IsEmpty());
  EXPECT_EQ(count(Counter::kNgramReads), 5);
}

TEST_F(DirectTable, M18AFailedReadIsThatOfItsRowAndNamesThePlace) {
  open(files_);
  files_.spoil(rig_.offset(7'000), rig_.offset(7'001));
  const std::vector<int64_t> rows = {500, 7'000, 19'000, 100};
  for (int i = 0; i < 2; i++) {
    std::string message;
    table_->want(rows);
    EXPECT_THAT(TableRig::failed(*table_, rows, &message), ElementsAre(1));
    EXPECT_THAT(message, HasSubstr("/models/table.gguf"));
    EXPECT_THAT(message, HasSubstr("offset "));
  }
  files_.heal();
  table_->want(rows);
  EXPECT_THAT(TableRig::failed(*table_, rows), IsEmpty());
}

// A read that does not come back fails its row, and what it brings later goes nowhere.
TEST_F(DirectTable, M18ALateReadFailsItsRowAndLeavesNothingStale) {
  open(files_, clock_);
  files_.spoil(rig_.offset(7'000), rig_.offset(7'001), 1000 * kNsPerS);
  table_->want(std::vector<int64_t>{500, 7'000});
  std::vector<std::byte> bytes(kRowBytes);
  ASSERT_TRUE(table_->take(0, bytes).ok());
  EXPECT_TRUE(TableRig::right(bytes, 500));
  clock_.wait_for_sleepers(1);
  clock_.advance_s(61);
  const Status late = table_->take(1, bytes);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kIo);
  EXPECT_THAT(late.error().message, HasSubstr("--io-timeout-s"));
  files_.heal();
  for (int i = 0; i < 3; i++) {
    if (i == 1) clock_.advance_s(1000);  // it comes back
    const std::vector<int64_t> next = some_rows(20'000, 999, static_cast<uint64_t>(i));
    table_->want(next);
    EXPECT_THAT(TableRig::failed(*table_, next), IsEmpty());
  }
}

// All room is with reads that don't come back: an error when the time is up, not a hang.
TEST_F(DirectTable, M18NoRoomForAnotherReadIsAnError) {
  table_ = model::kDirectTable.open(rig_.spec(2, files_, clock_)).value();
  files_.spoil(0, UINT64_MAX, 1000 * kNsPerS);
  table_->want(std::vector<int64_t>{1, 10'000});
  clock_.wait_for_sleepers(2);
  table_->want(std::vector<int64_t>{5'000});
  Status status;
  Thread taking([&] {
    std::vector<std::byte> bytes(kRowBytes);
    status = table_->take(0, bytes);
  });
  while (count(Counter::kNgramWaits) == 0) std::this_thread::yield();
  clock_.advance_s(59);
  clock_.advance_s(2);
  taking.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  files_.heal();
  clock_.advance_s(1000);
}

TEST_F(DirectTable, AFileThatBecameShorterIsRefused) {
  MemoryFileSystem shorter;
  std::vector<std::byte> bytes = table_file(20'000);
  bytes.resize(bytes.size() - 4096);
  shorter.add_file("/models/table.gguf", bytes);
  const auto refused = model::kDirectTable.open(rig_.spec(1000, shorter));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_THAT(refused.error().message, HasSubstr("has changed since it was opened"));
}

TEST(MappedTable, G22ACutFileFailsTheRowsThatItLost) {
  const TempDir folder;
  const std::string path = folder.file("table.gguf");
  const std::vector<std::byte> bytes = table_file(20'000);
  std::ofstream(path).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  TableRig rig(real_file_system(), path);
  const auto table = model::kMappedTable.open(rig.spec(4)).value();
  const std::vector<int64_t> rows = {0, 10'000};
  table->want(rows);
  EXPECT_THAT(TableRig::failed(*table, rows), IsEmpty());
  ASSERT_EQ(truncate(path.c_str(), 64 * 1024), 0);
  std::string message;
  table->want(rows);
  EXPECT_THAT(TableRig::failed(*table, rows, &message), ElementsAre(1));
  EXPECT_THAT(message, HasSubstr(path));
}

}  // namespace
}  // namespace strata::test
