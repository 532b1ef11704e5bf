// The recurrent operations: several segments in one step equal one after another, and a sequence cut anywhere equals
// the whole, bit for bit.
#include <gtest/gtest.h>

#include "device/support.h"

namespace strata::test {
namespace {

using device::DeltaShape;
using device::host::HostDevice;

struct Segment {
  int32_t slot, first, rows;
};

constexpr int64_t kRows = 12, kSlots = 4;

// The inputs of both operations, the same for every instance.
class Recurrent {
 public:
  explicit Recurrent(HostDevice& device)
      : device_(device),
        x_(device, kRows, kShape.channels(), 1, 2),
        taps_(device, kShape.channels(), kShape.kernel, 0, 0),
        conv_state_(device, kSlots, kShape.conv_state(), 0, 0),
        convolved_(device, kRows, kShape.channels(), 0, 0),
        g_beta_(device, kRows, 2 * kShape.n_value_heads, 0, 0),
        state_(device, kSlots, kShape.state(), 0, 0),
        y_(device, kRows, int64_t{kShape.n_value_heads} * kShape.value_dim, 0, 0),
        count_(device, 1, 1, 0, 0),
        table_(device, 4, 3, 0, 0) {
    Random random(9);
    for (const Grid<float>* grid : {&x_, &taps_, &conv_state_, &state_}) grid->fill_normal(random);
    for (int64_t r = 0; r < kRows; r++) {
      for (int h = 0; h < kShape.n_value_heads; h++) {
        g_beta_.at(r, h) = static_cast<float>(-random.uniform());
        g_beta_.at(r, kShape.n_value_heads + h) = static_cast<float>(random.uniform());
      }
    }
  }

  // One step over these segments.
  void step(const std::vector<Segment>& segments) {
    count_.at(0, 0) = static_cast<int32_t>(segments.size());
    for (size_t i = 0; i < segments.size(); i++) {
      table_.set_row(static_cast<int64_t>(i), {segments[i].slot, segments[i].first, segments[i].rows});
    }
    const device::SegmentMap map{count_.view(), table_.view()};
    const auto enqueue = [&](device::Stream& s) {
      s.enqueue(device::DeltaConv{.x = x_, .taps = taps_, .conv_state = conv_state_, .segments = map, .y = convolved_,
                                  .shape = kShape, .eps = 1e-6f});
      s.enqueue(device::DeltaNet{.qkv = convolved_, .g_beta = g_beta_, .state = state_, .segments = map, .y = y_,
                                 .shape = kShape, .chunk_min_rows = 0});
    };
    ASSERT_TRUE(device_.capture(enqueue).ok());
    const auto stream = device_.make_stream("test");
    enqueue(*stream);
    ASSERT_TRUE(stream->synchronize().ok());
  }

  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> all;
    for (const Grid<float>* grid : {&conv_state_, &convolved_, &state_, &y_}) all.push_back(bytes_of(*grid->memory()));
    return all;
  }

 private:
  static constexpr DeltaShape kShape{.n_key_heads = 2, .n_value_heads = 4, .key_dim = 8, .value_dim = 5, .kernel = 4,
                                     .tiled = true};
  HostDevice& device_;
  Grid<float> x_, taps_, conv_state_, convolved_, g_beta_, state_, y_;
  Grid<int32_t> count_, table_;
};

// The convolution with distant taps, over sequences that begin with this step or went on before it.
class Distant {
 public:
  static constexpr int32_t kLong = 40;
  explicit Distant(HostDevice& device)
      : device_(device),
        y_(device, kLong, kChannels, 1, 2),
        add_(device, kLong, kChannels, 0, 0),
        taps_(device, kChannels, kKernel, 0, 0),
        history_(device, kSlots, kDepth * kChannels, 0, 0),
        positions_(device, 1, kLong, 0, 0),
        x_(device, kLong, kChannels, 0, 0),
        count_(device, 1, 1, 0, 0),
        table_(device, 4, 3, 0, 0) {
    Random random(11);
    for (const Grid<float>* grid : {&y_, &add_, &taps_, &history_, &x_}) grid->fill_normal(random);
  }

  // `position`: of the first row of each segment.
  void step(const std::vector<Segment>& segments, const std::vector<int32_t>& position) {
    count_.at(0, 0) = static_cast<int32_t>(segments.size());
    for (size_t i = 0; i < segments.size(); i++) {
      const Segment& s = segments[i];
      table_.set_row(static_cast<int64_t>(i), {s.slot, s.first, s.rows});
      for (int32_t r = 0; r < s.rows; r++) positions_.at(0, s.first + r) = position[i] + r;
    }
    const auto stream = device_.make_stream("test");
    stream->enqueue(device::DistantConv{.y = y_, .add = add_, .taps = taps_, .history = history_,
                                        .segments = {count_.view(), table_.view()}, .positions = positions_, .x = x_,
                                        .kernel = kKernel, .distance = kDistance});
    ASSERT_TRUE(stream->synchronize().ok());
  }

  std::vector<std::vector<std::byte>> results() const { return {bytes_of(*history_.memory()), bytes_of(*x_.memory())}; }

 private:
  static constexpr int64_t kChannels = 300;
  static constexpr int kKernel = 4, kDistance = 3;
  static constexpr int64_t kDepth = kDistance * (kKernel - 1);
  HostDevice& device_;
  Grid<float> y_, add_, taps_, history_;
  Grid<int32_t> positions_;
  Grid<float> x_;
  Grid<int32_t> count_, table_;
};

TEST(Segments, DistantTapsOfSeveralInAStepEqualOneAtATime) {
  HostDevice device(host_options(2));
  Distant together(device), apart(device);
  const std::vector<Segment> segments = {{2, 0, 15}, {0, 15, 1}, {3, 16, 24}};
  const std::vector<int32_t> positions = {100, 4, 0};
  together.step(segments, positions);
  for (size_t i = 0; i < segments.size(); i++) apart.step({segments[i]}, {positions[i]});
  EXPECT_EQ(together.results(), apart.results());
}

TEST(Segments, ASequenceWithDistantTapsCutAnywhereEqualsTheWhole) {
  HostDevice device(host_options(2));
  for (const int32_t position : {0, 5, 31}) {
    Distant whole(device);
    whole.step({{1, 0, Distant::kLong}}, {position});
    for (int32_t cut = 1; cut < Distant::kLong; cut++) {
      Distant parts(device);
      parts.step({{1, 0, cut}}, {position});
      parts.step({{1, cut, Distant::kLong - cut}}, {position + cut});
      EXPECT_EQ(parts.results(), whole.results()) << "cut at " << cut;
    }
  }
}

TEST(Segments, SeveralInAStepEqualOneAtATime) {
  HostDevice device(host_options(2));
  Recurrent together(device), apart(device);
  const std::vector<Segment> segments = {{2, 0, 5}, {0, 5, 1}, {3, 6, 6}};
  together.step(segments);
  for (const Segment& s : segments) apart.step({s});
  EXPECT_EQ(together.results(), apart.results());
}

TEST(Segments, ASequenceCutAnywhereEqualsTheWhole) {
  HostDevice device(host_options(2));
  Recurrent whole(device);
  whole.step({{1, 0, 12}});
  for (int32_t cut = 1; cut < 12; cut++) {
    Recurrent parts(device);
    parts.step({{1, 0, cut}});
    parts.step({{1, cut, 12 - cut}});
    EXPECT_EQ(parts.results(), whole.results()) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace strata::test
