// Policies on recordings whose answer is known.
#include "experts/replay.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/file_sim.h"
#include "base/random.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::ExpertProfile;
using experts::ReplayOptions;
using experts::RoutedModel;
using experts::RoutingReader;

constexpr int32_t kLayers = 2, kExperts = 16;
const RoutedModel kModel{"m", kLayers, kExperts};

// One expert a row and layer, in blocks of 8 rows.
class Recording {
 public:
  void add_row(int32_t expert) { rows_.push_back(expert); }
  int64_t rows() const { return std::ssize(rows_); }

  std::unique_ptr<RoutingReader> open() {
    std::string file("STRAROUT");
    for (const uint32_t n : {1u, uint32_t{kLayers}, uint32_t{kExperts}, 1u, 1u}) put(file, n);
    file += 'm';
    for (size_t first = 0; first < rows_.size(); first += 8) {
      const size_t n = std::min<size_t>(8, rows_.size() - first);
      put(file, static_cast<uint32_t>(n));
      for (int32_t layer = 0; layer < kLayers; layer++) {
        for (size_t i = 0; i < n; i++) put(file, static_cast<uint16_t>((rows_[first + i] + layer) % kExperts));
      }
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
    files_.add_file("/r", {bytes, bytes + file.size()});
    return RoutingReader::open(files_, "/r").value();
  }

 private:
  template <class T>
  static void put(std::string& file, T value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  std::vector<int32_t> rows_;
  MemoryFileSystem files_;
};

struct Measured {
  double hit_rate;
  int64_t moves;
};

// By policy: fixed, adaptive, lru.
std::vector<Measured> measure(Recording& recording, const ExpertProfile& profile, const ReplayOptions& options) {
  std::vector<ExpertKey> ranking;
  for (int32_t e = 0; e < kExperts; e++) {
    for (int32_t l = 0; l < kLayers; l++) ranking.push_back({l, (e + l) % kExperts});
  }
  std::vector<std::unique_ptr<experts::ReplayedCache>> caches;
  for (const experts::ReplayPolicy& policy : experts::replay_policies()) {
    caches.push_back(policy.make(profile, ranking, 1, options));
  }
  EXPECT_EQ(replay(*recording.open(), caches).value(), recording.rows());
  std::vector<Measured> measured;
  for (const auto& cache : caches) {
    EXPECT_EQ(cache->pairs(), recording.rows() * kLayers);
    measured.push_back({cache->hit_rate(), cache->moves()});
  }
  return measured;
}

TEST(Replay, ExpertsOfTheStartAreHit) {
  Recording recording;
  for (int i = 0; i < 100; i++) recording.add_row(i % 4);
  for (const Measured& m : measure(recording, ExpertProfile(kModel), {.n_slots = 8})) {
    EXPECT_EQ(m.hit_rate, 1);
    EXPECT_EQ(m.moves, 0);
  }
  for (const Measured& m : measure(recording, ExpertProfile(kModel), {.n_slots = 0})) EXPECT_EQ(m.hit_rate, 0);
}

// The working set moves from one half of the experts to the other.
TEST(Replay, AnAdaptiveCacheFollows) {
  Recording recording;
  for (int i = 0; i < 400; i++) recording.add_row(8 + i % 4);
  const std::vector<Measured> m = measure(recording, ExpertProfile(kModel), {.n_slots = 8, .adapt_every = 4});
  EXPECT_EQ(m[0].hit_rate, 0);
  EXPECT_GT(m[1].hit_rate, 0.9);
  EXPECT_EQ(m[1].moves, 8) << "four experts of two layers, each once";
  EXPECT_EQ(m[2].hit_rate, 0.99);
  EXPECT_EQ(m[2].moves, 8);
}

// More experts in turn than there are slots: recency alone never hits.
TEST(Replay, AnAdaptiveCacheDoesNotThrash) {
  Recording recording;
  for (int i = 0; i < 800; i++) recording.add_row(i % 8);
  const std::vector<Measured> m = measure(recording, ExpertProfile(kModel), {.n_slots = 12});
  EXPECT_NEAR(m[0].hit_rate, 6.0 / 8, 0.01);
  EXPECT_NEAR(m[1].hit_rate, 6.0 / 8, 0.01);
  EXPECT_EQ(m[1].moves, 0);
  EXPECT_LT(m[2].hit_rate, 0.05);
}

TEST(Replay, AProfileHoldsAgainstNoise) {
  Recording recording;
  Random random(3);
  for (int i = 0; i < 2000; i++) {
    recording.add_row(static_cast<int32_t>(random.below(10) < 7 ? random.below(4) : random.below(kExperts)));
  }
  const std::vector<Measured> m = measure(recording, ExpertProfile(kModel), {.n_slots = 8});
  EXPECT_GT(m[1].hit_rate, m[0].hit_rate - 0.02);
  EXPECT_LT(m[1].moves, 400);
}

}  // namespace
}  // namespace strata::test
