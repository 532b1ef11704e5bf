// The map of last accesses against a list of all accesses to every byte: it has to find the first race when the list
// does, and none before.
#include "device/sim/interval_map.h"

#include <array>

#include <gtest/gtest.h>

#include "base/random.h"

namespace strata::test {
namespace {

using device::sim::Access;
using device::sim::Conflict;
using device::sim::IntervalMap;
using device::sim::kOpenAccess;
using device::sim::Order;
using device::sim::Strand;
using device::sim::StrandKind;

constexpr size_t kBytes = 24;

struct Noted {
  Access access;
  bool write;
};

class Everything {
 public:
  bool note(size_t begin, size_t end, const Access& access, bool write, const Strand& strand) {
    bool race = false;
    for (size_t i = begin; i < end; i++) {
      for (const Noted& earlier : bytes_[i])
        race |= (write || earlier.write) && !ordered_before(earlier.access, strand);
      bytes_[i].push_back({access, write});
    }
    return race;
  }

 private:
  std::array<std::vector<Noted>, kBytes> bytes_;
};

// Random accesses and joins of four strands until the first race; the number of accesses before it.
int run_until_race(uint64_t seed) {
  Random random(seed);
  Order order;
  std::array<Strand*, 4> strands;
  for (Strand*& s : strands) s = order.open(StrandKind::kStream, "strand", {});
  IntervalMap map;
  Everything everything;
  for (int i = 0; i < 1000; i++) {
    Strand& strand = *strands[random.below(4)];
    for (uint64_t joins = random.below(4); joins > 0; joins--)
      strand.now.join(order.release(*strands[random.below(4)]));
    const size_t begin = random.below(kBytes);
    const size_t end = begin + 1 + random.below(kBytes - begin);
    const bool write = random.below(4) == 0;
    const Access access{strand.slot, strand.step(), nullptr};
    Conflict conflict;
    const bool expected = everything.note(begin, end, access, write, strand);
    const bool found = map.note(begin, end, access, write, strand, conflict);
    EXPECT_EQ(found, expected) << "seed " << seed << ", access " << i;
    EXPECT_LE(map.size(), kBytes);
    if (found || expected) {
      EXPECT_LE(begin, conflict.begin);
      EXPECT_LT(conflict.begin, conflict.end);
      EXPECT_LE(conflict.end, end);
      return i;
    }
  }
  return 1000;
}

TEST(IntervalMap, FindsTheFirstRaceWhenItIsThere) {
  int late = 0;
  for (uint64_t seed = 0; seed < 2000; seed++) {
    if (run_until_race(seed) >= 5) late++;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(late, 200) << "most runs end before the map has any history";
}

TEST(IntervalMap, NeighboursThatHoldTheSameAreOneCell) {
  Order order;
  Strand& strand = *order.open(StrandKind::kStream, "strand", {});
  IntervalMap map;
  Conflict conflict;
  const Access access{strand.slot, strand.step(), nullptr};
  for (size_t i = 0; i < 100; i += 2) map.note(i, i + 1, access, true, strand, conflict);
  EXPECT_EQ(map.size(), 50u);
  for (size_t i = 1; i < 100; i += 2) map.note(i, i + 1, access, true, strand, conflict);
  EXPECT_EQ(map.size(), 1u);
  map.note(40, 60, access, false, strand, conflict);
  EXPECT_EQ(map.size(), 3u);
  static_cast<void>(order.release(strand));
  map.note(0, 100, {strand.slot, strand.step(), nullptr}, true, strand, conflict);
  EXPECT_EQ(map.size(), 1u);
}

TEST(IntervalMap, AnOpenAccessRacesUntilItIsClosed) {
  Order order;
  Strand& host = *order.open(StrandKind::kHost, "host", {});
  Strand& stream = *order.open(StrandKind::kStream, "stream", {});
  IntervalMap map;
  Conflict conflict;
  const Access open{host.slot, kOpenAccess, nullptr};
  EXPECT_FALSE(map.note(0, 10, open, true, host, conflict));
  EXPECT_FALSE(map.note(2, 4, {host.slot, host.step(), nullptr}, false, host, conflict)) << "its own strand may";
  stream.now.join(order.release(host));
  EXPECT_TRUE(map.note(9, 10, {stream.slot, stream.step(), nullptr}, false, stream, conflict));
  map.close(0, 10, kOpenAccess, host.step());
  EXPECT_TRUE(map.note(0, 1, {stream.slot, stream.step(), nullptr}, false, stream, conflict)) << "not joined since";
  stream.now.join(order.release(host));
  EXPECT_FALSE(map.note(4, 8, {stream.slot, stream.step(), nullptr}, true, stream, conflict));
}

TEST(Order, ThreadsThatWereJoinedLeaveTheirSlots) {
  Order order;
  uint32_t highest = 0;
  const auto note_slot = [&] {
    const std::lock_guard<std::mutex> lock(order.mutex());
    highest = std::max(highest, order.current().slot);
  };
  note_slot();
  for (int i = 0; i < 50; i++) Thread(note_slot).join();
  EXPECT_LE(highest, 2u);
}

// A slot is given to another strand only if that one is ordered after all that was done under it.
TEST(Order, SlotsAreUsedAgainByThoseWhoHaveSeenThemEnd) {
  Order order;
  Strand* host = order.open(StrandKind::kHost, "host", {});
  Strand* other = order.open(StrandKind::kHost, "other", {});
  Strand* read = order.open(StrandKind::kRead, "drive", order.release(*host));
  const uint32_t slot = read->slot;
  const uint64_t step = read->step();
  host->now.join(order.release(*read));
  order.close(read);
  Strand* of_other = order.open(StrandKind::kRead, "drive", order.release(*other));
  EXPECT_NE(of_other->slot, slot);
  Strand* of_host = order.open(StrandKind::kRead, "drive", order.release(*host));
  EXPECT_EQ(of_host->slot, slot);
  EXPECT_GT(of_host->step(), step);
}

}  // namespace
}  // namespace strata::test
