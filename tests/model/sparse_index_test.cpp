// The index of sparse attention over 8,192 tokens at the sizes of real models (blocks of 4, a budget of 2,048 tokens):
// what a row chooses is what sorting all blocks by their scores gives, computed in double from the raw keys, however
// the tokens were cut into steps, and after a sequence was cut back and restored.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "device/support.h"
#include "kernels/rope.h"
#include "model/sequence.h"

namespace strata::test {
namespace {

constexpr int64_t kTokens = 8192;
constexpr int kBlock = 4;
constexpr int64_t kBudget = 2048;
constexpr int kMost = kBudget / kBlock;
constexpr int kHeads = 4;
constexpr int64_t kDim = 128;
constexpr int kPairs = 32;
constexpr int64_t kRows = 1000;
constexpr float kEps = 1e-6f;

// The projections of a text's tokens.
struct Text {
  explicit Text(uint64_t seed) {
    Random random(seed);
    for (int64_t t = 0; t < kTokens; t++) {
      // Keys have a part in common that queries point away from, in some rows so far that few blocks or none score
      // above 0: equal scores at the cut.
      const double away = 0.15 * static_cast<double>(t % 4);
      for (int64_t i = 0; i < kDim; i++) {
        k.push_back(static_cast<float>(random.normal() + common(i)));
      }
      for (int64_t i = 0; i < kHeads * kDim; i++) {
        q.push_back(static_cast<float>(random.normal() - away * common(i % kDim)));
      }
    }
  }
  static double common(int64_t i) { return i >= 2 * kPairs ? 0.5 : 0; }
  std::vector<float> q, k;
};

// A sequence of one sparse layer: history[t] says which text token t came from.
class Index {
 public:
  explicit Index(int threads)
      : device_(host_options(threads)),
        rope_(kernels::rope_frequencies(hparams().rope)),
        q_(device_, kRows, kHeads * kDim, 0, 0),
        k_(device_, kRows, kDim, 0, 0),
        gain_(device_, 1, kDim, 0, 0),
        cos_sin_(device_, kRows, 2 * kPairs, 0, 0),
        inv_freq_(device_, 1, kPairs, 0, 0),
        positions_(device_, 1, kRows, 0, 0),
        slots_(device_, 1, kRows, 0, 0),
        table_(device_, 1, kLimits.blocks_per_sequence(), 0, 0),
        counts_(device_, 1, 2, 0, 0),
        segment_(device_, 1, 3, 0, 0),
        chosen_(device_, kRows, kMost + 2, 0, 0),
        stream_(device_.make_stream("test")) {
    memory_ = model::StateMemory::create(device_, hparams(), 0, 1, kLimits, kernels::KvType::kF32).value();
    pool_ = std::make_unique<model::SequencePool>(
        kLimits, std::vector<model::SequencePool::PartState>{{memory_.get(), stream_.get()}}, stats_);
    sequence_ = std::make_unique<model::SequenceState>(pool_->make_sequence().value());
    for (int64_t i = 0; i < kDim; i++) gain_.at(0, i) = 1 + 0.01f * static_cast<float>(i % 7);
    std::copy(rope_.inv_freq.begin(), rope_.inv_freq.end(), inv_freq_.row(0));
    const auto graph = device_.capture([&](device::Stream& s) { enqueue(s); });  // reserves scratch
    EXPECT_TRUE(graph.ok());
  }

  model::SequenceState& sequence() { return *sequence_; }
  int64_t n_tokens() const { return static_cast<int64_t>(keys_.size()) / kDim; }

  // n more tokens of a text, as one step; they begin where the sequence ends.
  void append(const Text& text, int64_t n) {
    const int64_t first = sequence_->n_tokens();
    keys_.resize(static_cast<size_t>(first * kDim));
    ASSERT_TRUE(sequence_->reserve(n).ok());
    std::copy(sequence_->blocks().begin(), sequence_->blocks().end(), table_.row(0));
    counts_.set_row(0, {static_cast<int32_t>(n), 1});
    segment_.set_row(0, {sequence_->slot(), 0, static_cast<int32_t>(n)});
    queries_.assign(text.q.begin() + first * kHeads * kDim, text.q.begin() + (first + n) * kHeads * kDim);
    keys_.insert(keys_.end(), text.k.begin() + first * kDim, text.k.begin() + (first + n) * kDim);
    std::copy(queries_.begin(), queries_.end(), q_.row(0));
    std::copy_n(text.k.begin() + first * kDim, n * kDim, k_.row(0));
    for (int64_t r = 0; r < n; r++) {
      positions_.at(0, r) = static_cast<int32_t>(first + r);
      slots_.at(0, r) = sequence_->slot();
      kernels::rope_angles(first + r, inv_freq_.row(0), kPairs, 1, cos_sin_.row(r), cos_sin_.row(r) + kPairs);
    }
    enqueue(*stream_);
    ASSERT_TRUE(stream_->synchronize().ok());
    sequence_->advance(n);
  }

  // The complete blocks that row r of the last step chose, by their numbers in the sequence. The incomplete one stands
  // behind them.
  std::vector<int64_t> chosen(int64_t r) const {
    const int64_t n = chosen_.at(r, 0);
    const int64_t n_tokens = positions_.at(0, r) + 1;
    const int per_kv = model::kBlockTokens / kBlock;
    std::vector<int64_t> place_of;
    for (const int32_t kv_block : sequence_->blocks()) {
      for (int i = 0; i < per_kv; i++) place_of.push_back(int64_t{kv_block} * per_kv + i);
    }
    std::vector<int64_t> blocks;
    for (int64_t i = 0; i < n + (n_tokens % kBlock != 0 ? 1 : 0); i++) {
      const auto at = std::find(place_of.begin(), place_of.end(), chosen_.at(r, 1 + i));
      blocks.push_back(at - place_of.begin());
    }
    if (n_tokens % kBlock != 0) {
      EXPECT_EQ(blocks.back(), n_tokens / kBlock);
      blocks.pop_back();
    }
    return blocks;
  }

  // Scores of all complete blocks for row r of the last step, and for a block that scores 0 how far it is from more.
  struct Scores {
    std::vector<double> score, distance;
  };
  Scores scores(int64_t r) const {
    const int64_t position = positions_.at(0, r);
    std::vector<std::vector<double>> heads;
    for (int h = 0; h < kHeads; h++) {
      const float* q = queries_.data() + (r * kHeads + h) * kDim;
      heads.push_back(rotated({q, q + kDim}, position));
    }
    Scores out;
    for (int64_t first = 0; first + kBlock <= position + 1; first += kBlock) {
      std::vector<double> mean(kDim);
      for (int64_t i = 0; i < kBlock * kDim; i++) {
        mean[static_cast<size_t>(i % kDim)] += double{keys_[static_cast<size_t>(first * kDim + i)]} / kBlock;
      }
      const std::vector<double> key = rotated(mean, first);
      double score = 0, nearest = -INFINITY;
      for (const std::vector<double>& head : heads) {
        const double product = std::inner_product(head.begin(), head.end(), key.begin(), 0.0);
        score += std::max(0.0, product);
        nearest = std::max(nearest, product);
      }
      out.score.push_back(score);
      out.distance.push_back(std::abs(nearest));
    }
    return out;
  }

 private:
  static constexpr model::StateLimits kLimits{.max_sequences = 1, .max_checkpoints = 2, .max_tokens = kTokens};

  static model::HParams hparams() {
    model::HParams hp;
    hp.n_layers = 1;
    hp.n_heads = hp.n_kv_heads = 1;
    hp.key_dim = hp.value_dim = 4;
    hp.rope.n_rot = 2 * kPairs;
    hp.rope.base = 1e7;
    hp.recurrent = {false};
    hp.index_blocks = {kBlock};
    hp.indexer = {.n_heads = kHeads, .key_dim = kDim, .budget = kBudget};
    return hp;
  }
  void enqueue(device::Stream& stream) {
    const device::RowMap rows{counts_.view().columns(0, 1), positions_, slots_, table_};
    const device::BlockIndex index = memory_->index(0);
    stream.enqueue(device::IndexAppend{.q = q_,
                                       .k = k_,
                                       .q_norm = gain_,
                                       .k_norm = gain_,
                                       .cos_sin = cos_sin_,
                                       .inv_freq = inv_freq_,
                                       .rows = rows,
                                       .segments = {counts_.view().columns(1, 1), segment_},
                                       .tail = memory_->fixed(0, model::FixedState::kIndexTail),
                                       .index = index,
                                       .magnitude = rope_.magnitude,
                                       .eps = kEps});
    stream.enqueue(device::SelectBlocks{.q = q_, .rows = rows, .index = index, .chosen = chosen_, .most = kMost});
  }
  std::vector<double> rotated(std::vector<double> x, int64_t position) const {
    double sum = 0;
    for (const double value : x) sum += value * value;
    const double factor = 1 / std::sqrt(sum / kDim + double{kEps});
    for (size_t i = 0; i < x.size(); i++) x[i] *= factor * gain_.at(0, static_cast<int64_t>(i));
    for (size_t p = 0; p < kPairs; p++) {
      const double angle = static_cast<double>(position) * rope_.inv_freq[p];
      const double a = x[p], b = x[p + kPairs];
      x[p] = a * std::cos(angle) - b * std::sin(angle);
      x[p + kPairs] = a * std::sin(angle) + b * std::cos(angle);
    }
    return x;
  }

  device::host::HostDevice device_;
  kernels::RopeFrequencies rope_;
  Grid<float> q_, k_, gain_, cos_sin_, inv_freq_;
  Grid<int32_t> positions_, slots_, table_, counts_, segment_, chosen_;
  std::unique_ptr<device::Stream> stream_;
  Stats stats_;
  std::unique_ptr<model::StateMemory> memory_;
  std::unique_ptr<model::SequencePool> pool_;
  std::unique_ptr<model::SequenceState> sequence_;
  std::vector<float> queries_, keys_;  // raw: of the last step, of the whole sequence
};

// The kMost blocks with the highest scores, of equal ones the earlier or, which is wrong, the later.
std::vector<int64_t> best(const std::vector<double>& scores, bool earlier_first) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  if (!earlier_first) std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(std::min<size_t>(order.size(), kMost));
  std::sort(order.begin(), order.end());
  return order;
}

// Counts the rows that were compared, those that had to choose, and those whose choice a tie decides.
struct Seen {
  int rows = 0, choices = 0, ties = 0, too_close = 0;
};

// Float32 sums of 512 products of values around 1 are off by less than this.
constexpr double kClose = 1e-4;

void check_row(const Index& index, int64_t r, Seen& seen) {
  const Index::Scores all = index.scores(r);
  std::vector<double> sorted = all.score;
  std::sort(sorted.rbegin(), sorted.rend());
  seen.rows++;
  if (sorted.size() > kMost) {
    seen.choices++;
    const double last = sorted[kMost - 1], next = sorted[kMost];
    const bool near_zero = std::any_of(all.distance.begin(), all.distance.end(), [](double d) { return d < kClose; });
    // Rounding could decide; a tie at 0 is one only while no block is close to scoring.
    if (last > 0 ? last - next < kClose : near_zero) {
      seen.too_close++;
      return;
    }
    if (last == 0) {
      seen.ties++;
      EXPECT_NE(index.chosen(r), best(all.score, false)) << "the rule for ties shows nothing";
    }
  }
  EXPECT_EQ(index.chosen(r), best(all.score, true)) << "row " << r;
}

// Appends tokens up to `end` in steps of many sizes and compares some rows of each, the last one among them.
void append_and_check(Index& index, const Text& text, int64_t end, Random& random, Seen& seen) {
  while (index.sequence().n_tokens() < end && !testing::Test::HasFailure()) {
    const int64_t most = random.below(2) == 0 ? 9 : kRows;
    const int64_t n = std::min<int64_t>(end - index.sequence().n_tokens(),
                                        1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(most))));
    index.append(text, n);
    check_row(index, n - 1, seen);
    for (int i = 0; i < 2; i++) check_row(index, static_cast<int64_t>(random.below(static_cast<uint64_t>(n))), seen);
  }
}

// H05, D05: the index is part of what a sequence goes back to.
TEST(SparseIndex, H05D05ChoosesWhatSortingAllBlocksGivesAfterTruncateAndRestoreToo) {
  const Text text(1), other(2);
  for (const int threads : {1, 3}) {
    Index index(threads);
    Random random(3);
    Seen seen;
    append_and_check(index, text, 3001, random, seen);
    ASSERT_TRUE(index.sequence().checkpoint().ok());
    append_and_check(index, text, 5002, random, seen);
    const auto checkpoint = index.sequence().checkpoint();
    ASSERT_TRUE(checkpoint.ok());
    append_and_check(index, other, 5703, random, seen);
    ASSERT_TRUE(index.sequence().restore(*checkpoint).ok());
    append_and_check(index, text, kTokens, random, seen);
    ASSERT_TRUE(index.sequence().truncate(3001).ok());
    append_and_check(index, other, 4500, random, seen);
    EXPECT_GT(seen.choices, 50);
    EXPECT_GT(seen.ties, 10);
    EXPECT_LT(seen.too_close, seen.choices / 10);
    RecordProperty("rows", seen.rows);
    RecordProperty("ties", seen.ties);
  }
}

}  // namespace
}  // namespace strata::test
