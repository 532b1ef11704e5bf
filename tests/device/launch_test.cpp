// What make_launch derives from an operation, what it refuses, and what the indirect readers say they touch.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "device/host/host_ops.h"
#include "device/op_case.h"
#include "device/paged.h"

namespace strata::test {
namespace {

using device::Launch;
using device::Range;
using device::View;
using device::host::HostDevice;
using Site = decltype(Launch::site);

template <class Op>
Launch launch_of(const Op& op, const device::Device& device) {
  return device::make_launch(op, &device, Site::current());
}

template <class T>
bool same_range(const Range& range, const View<T>& view, bool write) {
  return range.memory == view.memory && range.offset == view.offset && range.rows == view.rows &&
         range.row_bytes == static_cast<size_t>(view.cols) * sizeof(T) &&
         range.stride_bytes == static_cast<size_t>(view.stride) * sizeof(T) && range.write == write;
}

class LaunchTest : public testing::Test {
 protected:
  HostDevice device_{host_options()};
  HostDevice other_{host_options()};
  Grid<float> w_{device_, 4, 6, 0, 0};
  Grid<float> x_{device_, 3, 6, 1, 2};
  Grid<float> y_{device_, 3, 4, 2, 1};
  Grid<float> bias_{device_, 1, 4, 0, 0};
  Grid<int32_t> live_{device_, 1, 1, 0, 0};

  device::Weight weight(const Grid<float>& w) const {
    return {w.memory(), 0, quant::Type::F32, w.rows(), w.cols(), static_cast<size_t>(w.cols()) * sizeof(float)};
  }
  device::MatMul mat_mul() const { return {.w = weight(w_), .x = x_, .bias = bias_, .live = live_, .y = y_}; }
};

TEST_F(LaunchTest, RangesOfAProduct) {
  const Launch launch = launch_of(mat_mul(), device_);
  EXPECT_STREQ(launch.name, "mat_mul");
  EXPECT_EQ(launch.op, device::op_index<device::MatMul>());
  ASSERT_EQ(launch.n_ranges, 5);
  EXPECT_TRUE(same_range(launch.ranges[0], w_.view(), false));
  EXPECT_TRUE(same_range(launch.ranges[1], x_.view(), false));
  EXPECT_TRUE(same_range(launch.ranges[2], bias_.view(), false));
  EXPECT_TRUE(same_range(launch.ranges[3], live_.view(), false));
  EXPECT_TRUE(same_range(launch.ranges[4], y_.view(), true));
}

TEST_F(LaunchTest, AnAccumulatorIsReadAndWrittenAndAnEmptyBiasIsNothing) {
  device::MatMul op = mat_mul();
  op.bias = {};
  op.accumulate = true;
  const Launch launch = launch_of(op, device_);
  ASSERT_EQ(launch.n_ranges, 5);
  EXPECT_TRUE(same_range(launch.ranges[3], y_.view(), false));
  EXPECT_TRUE(same_range(launch.ranges[4], y_.view(), true));
}

TEST_F(LaunchTest, ALaunchCarriesTheOperationAsItWas) {
  device::RmsNorm op{.x = x_, .gain = bias_, .live = live_, .y = x_, .eps = 0.25f};
  const Grid<float> gain(device_, 1, 6, 0, 0), out(device_, 3, 6, 0, 0);
  op.gain = gain.view();
  op.y = out.view();
  const Launch launch = launch_of(op, device_);
  device::RmsNorm copy;
  std::memcpy(static_cast<void*>(&copy), launch.args, sizeof copy);
  EXPECT_EQ(copy.eps, 0.25f);
  EXPECT_EQ(copy.y.memory, out.memory());
  EXPECT_EQ(copy.x.offset, x_.view().offset);
}

// Every case writes only into memory that a written range or a KV block names, and each operation names its outputs.
TEST(Launch, EveryOperationNamesItsOutputs) {
  HostDevice device(host_options());
  class Catcher final : public device::Stream {
   public:
    explicit Catcher(device::Device* device) : Stream(device, "catcher") {}
    void copy(device::Memory&, size_t, const device::Memory&, size_t, size_t, Site) override {}
    void fill_zero(device::Memory&, size_t, size_t, Site) override {}
    void record(device::Event&) override {}
    void wait(const device::Event&) override {}
    device::Ticket host_task(const device::HostTask&) override { return {}; }
    void wait(device::Ticket) override {}
    void abort(Error) override {}
    Status synchronize() override { return {}; }
    void reset() override {}
    Launch launch;

   private:
    void submit(const Launch& submitted) override { launch = submitted; }
  };
  class Collect final : public device::RangeSink {
   public:
    void add(const Range& range) override { ranges.push_back(range); }
    std::vector<Range> ranges;
  };
  for (const auto& c : all_op_cases(device)) {
    Random random(3);
    c->fill(random);
    Catcher catcher(&device);
    c->enqueue(catcher);
    Collect touched;
    touched.ranges.assign(catcher.launch.ranges, catcher.launch.ranges + catcher.launch.n_ranges);
    const auto& row = device::host::op_row(catcher.launch.op);
    if (row.footprint != nullptr) row.footprint(catcher.launch.args, touched);
    for (const Want& want : c->expect()) {
      const auto* at = static_cast<const std::byte*>(want.at);
      const bool named = std::any_of(touched.ranges.begin(), touched.ranges.end(), [&](const Range& r) {
        if (!r.write || at < r.memory->address() + r.offset) return false;
        const auto from = static_cast<size_t>(at - r.memory->address()) - r.offset;
        const size_t row_of = r.stride_bytes == 0 ? 0 : from / r.stride_bytes;
        return static_cast<int64_t>(row_of) < r.rows && from - row_of * r.stride_bytes < r.row_bytes;
      });
      ASSERT_TRUE(named) << c->name() << " writes what it does not name";
    }
  }
}

using LaunchDeathTest = LaunchTest;

TEST_F(LaunchDeathTest, MemoryOfAnotherDevice) {
  const Grid<float> foreign_x(other_, 3, 6, 0, 0), foreign_w(other_, 4, 6, 0, 0), foreign_y(other_, 3, 4, 0, 0);
  const auto stream = device_.make_stream("test");
  device::MatMul op = mat_mul();
  op.x = foreign_x.view();
  EXPECT_DEATH(stream->enqueue(op), "owner");
  op = mat_mul();
  op.w = weight(foreign_w);
  EXPECT_DEATH(stream->enqueue(op), "owner");
  op = mat_mul();
  op.y = foreign_y.view();
  EXPECT_DEATH(stream->enqueue(op), "owner");
}

TEST_F(LaunchDeathTest, KvBlocksOfAnotherDevice) {
  OpCase here(device_, "here", 0), there(other_, "there", 0);
  const PagedShape shape;
  const Paged paged(here, shape), foreign(there, shape);
  const Grid<float> q(device_, shape.bucket, 2 * shape.key_dim, 0, 0),
      y(device_, shape.bucket, 2 * shape.value_dim, 0, 0);
  device::Attention op{.q = q, .sinks = {}, .rows = paged.row_map(), .kv = paged.kv(), .y = y, .n_heads = 2,
                       .q_head_stride = shape.key_dim};
  launch_of(op, device_);
  op.kv.k = foreign.kv().k;
  EXPECT_DEATH(launch_of(op, device_), "owner");
  op.kv = paged.kv();
  op.kv.v = foreign.kv().v;
  EXPECT_DEATH(launch_of(op, device_), "owner");
}

// One wrong shape or alias for each operation; the right one binds.
TEST_F(LaunchDeathTest, BasicShapesThatDoNotFit) {
  const Grid<float> a(device_, 3, 6, 0, 0), b(device_, 3, 6, 0, 0), narrow(device_, 3, 5, 0, 0),
      row(device_, 1, 6, 0, 0);
  const Grid<float> column(device_, 3, 1, 0, 0), short_row(device_, 1, 5, 0, 0), two_rows(device_, 2, 6, 0, 0);
  const Grid<int32_t> ids(device_, 1, 3, 0, 0), few_ids(device_, 1, 2, 0, 0);

  launch_of(device::Embed{.table = weight(w_), .ids = ids, .live = live_, .y = a}, device_);
  EXPECT_DEATH(launch_of(device::Embed{.table = weight(w_), .ids = ids, .live = live_, .y = narrow}, device_), "cols");
  EXPECT_DEATH(launch_of(device::Embed{.table = weight(w_), .ids = few_ids, .live = live_, .y = a}, device_), "ids");

  launch_of(device::RmsNorm{.x = a, .gain = row, .live = live_, .y = b}, device_);
  EXPECT_DEATH(launch_of(device::RmsNorm{.x = a, .gain = short_row, .live = live_, .y = b}, device_), "gain");
  EXPECT_DEATH(launch_of(device::RmsNorm{.x = a, .gain = row, .live = live_, .y = a}, device_), "overlap");
  EXPECT_DEATH(launch_of(device::RmsNorm{.x = a, .gain = row, .live = live_, .y = two_rows}, device_), "rows");

  device::MatMul product = mat_mul();
  product.x = narrow.view();
  EXPECT_DEATH(launch_of(product, device_), "cols");
  product = mat_mul();
  product.y = a.view();
  EXPECT_DEATH(launch_of(product, device_), "w.rows");
  product = mat_mul();
  product.bias = short_row.view();
  EXPECT_DEATH(launch_of(product, device_), "bias");

  EXPECT_DEATH(launch_of(device::SiluMul{.gate = a, .up = narrow, .live = live_}, device_), "cols");
  EXPECT_DEATH(launch_of(device::SiluMul{.gate = a, .up = two_rows, .live = live_}, device_), "rows");
  launch_of(device::AddGated{.y = a, .gate = column, .live = live_, .x = b}, device_);
  EXPECT_DEATH(launch_of(device::AddGated{.y = a, .gate = narrow, .live = live_, .x = b}, device_), "gate");
  EXPECT_DEATH(launch_of(device::AddGated{.y = a, .gate = column, .live = live_, .x = a}, device_), "overlap");
  launch_of(device::GatherRows{.x = a, .rows = ids, .live = live_, .y = b}, device_);
  EXPECT_DEATH(launch_of(device::GatherRows{.x = a, .rows = few_ids, .live = live_, .y = b}, device_), "rows");
  EXPECT_DEATH(launch_of(device::GatherRows{.x = a, .rows = ids, .live = live_, .y = narrow}, device_), "cols");
}

TEST_F(LaunchDeathTest, MoeShapesThatDoNotFit) {
  const Grid<int32_t> ids(device_, 3, 2, 0, 0);
  const Grid<float> weights(device_, 3, 2, 0, 0), logits(device_, 3, 4, 0, 0), x(device_, 3, 6, 0, 0);
  device::Router router{.w = weight(w_), .x = x, .bias = {}, .selection_bias = {}, .live = live_, .ids = ids,
                        .weights = weights, .logits = logits};
  router.params = {.n_experts = 4, .n_used = 2, .gating = kernels::Gating::kSoftmax, .normalize = false, .scale = 0,
                   .n_groups = 0, .n_groups_used = 0};
  launch_of(router, device_);
  device::Router broken = router;
  broken.params.n_used = 3;
  EXPECT_DEATH(launch_of(broken, device_), "n_used");
  broken = router;
  broken.params.n_experts = 5;
  EXPECT_DEATH(launch_of(broken, device_), "n_experts");
  broken = router;
  broken.logits = weights.view();
  EXPECT_DEATH(launch_of(broken, device_), "logits");

  const Grid<float> rows(device_, 6, 6, 0, 0);
  launch_of(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live_, .x = x}, device_);
  EXPECT_DEATH(launch_of(device::Combine{.rows = x, .weights = weights, .ids = ids, .live = live_, .x = rows}, device_),
               "rows");
  EXPECT_DEATH(
      launch_of(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live_, .x = logits}, device_),
      "cols");
  EXPECT_DEATH(launch_of(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live_,
                                         .x = rows.view().first_rows(3)}, device_), "overlap");
}

TEST_F(LaunchDeathTest, DeltaShapesThatDoNotFit) {
  const device::DeltaShape shape{.n_key_heads = 1, .n_value_heads = 2, .key_dim = 2, .value_dim = 3, .kernel = 3};
  const Grid<float> rows(device_, 2, shape.channels(), 0, 0), out(device_, 2, shape.channels(), 0, 0);
  const Grid<float> taps(device_, shape.channels(), 3, 0, 0), conv_state(device_, 1, shape.conv_state(), 0, 0);
  const Grid<float> gates(device_, 2, 4, 0, 0), state(device_, 1, shape.state(), 0, 0), y(device_, 2, 6, 0, 0);
  const Grid<int32_t> table(device_, 1, 3, 0, 0);
  const device::SegmentMap segments{live_.view(), table.view()};

  device::DeltaConv conv{
      .x = rows, .taps = taps, .conv_state = conv_state, .segments = segments, .y = out, .shape = shape};
  launch_of(conv, device_);
  conv.shape.kernel = 4;
  EXPECT_DEATH(launch_of(conv, device_), "conv_state");
  conv.shape = shape;
  conv.y = rows.view();
  EXPECT_DEATH(launch_of(conv, device_), "overlap");

  device::DeltaNet net{.qkv = rows, .g_beta = gates, .state = state, .segments = segments, .y = y, .shape = shape};
  launch_of(net, device_);
  net.shape.value_dim = 4;
  EXPECT_DEATH(launch_of(net, device_), "channels");
  net.shape = shape;
  net.g_beta = rows.view();
  EXPECT_DEATH(launch_of(net, device_), "n_value_heads");
  net.g_beta = gates.view();
  net.state = conv_state.view();
  EXPECT_DEATH(launch_of(net, device_), "state");

  const Grid<float> per_head(device_, 1, 2, 0, 0), g_beta(device_, 2, 4, 0, 0), gain(device_, 1, 4, 0, 0);
  launch_of(device::DeltaGates{.ba = gates, .dt_bias = per_head, .decay = per_head, .live = live_, .g_beta = g_beta},
            device_);
  EXPECT_DEATH(
      launch_of(device::DeltaGates{.ba = gates, .dt_bias = gain, .decay = gain, .live = live_, .g_beta = g_beta},
                device_),
      "dt_bias");
  EXPECT_DEATH(launch_of(device::GatedNorm{.x = y, .z = y, .gain = gain, .live = live_}, device_), "gain");
}

TEST_F(LaunchDeathTest, AttentionShapesThatDoNotFit) {
  OpCase c(device_, "", 0);
  const PagedShape shape;
  const Paged paged(c, shape);
  const Grid<float> q(device_, shape.bucket, 4 * shape.key_dim, 0, 0),
      k(device_, shape.bucket, 2 * shape.key_dim, 0, 0);
  const Grid<float> v(device_, shape.bucket, 2 * shape.value_dim, 0, 0),
      cos_sin(device_, shape.bucket, shape.key_dim, 0, 0);
  const Grid<float> y(device_, shape.bucket, 4 * shape.value_dim, 0, 0), sinks(device_, 1, 3, 0, 0);
  const device::RopeAppend append{.q = q,
                                  .k = k,
                                  .v = v,
                                  .q_norm = {},
                                  .k_norm = {},
                                  .cos_sin = cos_sin,
                                  .rows = paged.row_map(),
                                  .kv = paged.kv(),
                                  .n_heads = 4,
                                  .q_head_stride = shape.key_dim};
  launch_of(append, device_);
  device::RopeAppend broken = append;
  broken.n_heads = 3;
  EXPECT_DEATH(launch_of(broken, device_), "n_heads");
  broken = append;
  broken.kv.key_dim++;
  EXPECT_DEATH(launch_of(broken, device_), "key_dim");
  broken = append;
  broken.v = q.view();
  EXPECT_DEATH(launch_of(broken, device_), "value_dim");
  broken = append;
  broken.cos_sin = q.view();
  EXPECT_DEATH(launch_of(broken, device_), "cos_sin");

  const device::Attention attend{.q = q, .sinks = {}, .rows = paged.row_map(), .kv = paged.kv(), .y = y, .n_heads = 4,
                                 .q_head_stride = shape.key_dim};
  launch_of(attend, device_);
  device::Attention wrong = attend;
  wrong.gated = true;  // there is no room for gates between the queries
  EXPECT_DEATH(launch_of(wrong, device_), "gated");
  wrong = attend;
  wrong.sinks = sinks.view();
  EXPECT_DEATH(launch_of(wrong, device_), "sinks");
  wrong = attend;
  wrong.y = q.view();
  EXPECT_DEATH(launch_of(wrong, device_), "overlap");

  EXPECT_DEATH(launch_of(device::RopeAngles{.positions = paged.positions->view(), .inv_freq = sinks, .live = live_,
                                            .cos_sin = cos_sin}, device_), "inv_freq");
}

// Every byte of the cache: whether the footprint names it must be whether some row of the step uses it.
struct Touched final : device::RangeSink {
  void add(const Range& r) override {
    for (int64_t row = 0; row < r.rows; row++) {
      const size_t from = r.offset + static_cast<size_t>(row) * r.stride_bytes;
      for (size_t i = 0; i < r.row_bytes; i++) bytes[r.memory][from + i] = r.write;
    }
  }
  std::map<const device::Memory*, std::map<size_t, bool>> bytes;  // offset -> written
};

class FootprintTest : public testing::TestWithParam<kernels::KvType> {
 protected:

  // Bytes of the tokens, in keys and values.
  static void use(const Paged& paged, int64_t token, bool write, Touched& expected) {
    const device::KvBlocks kv = paged.kv();
    for (size_t i = 0; i < kv.k_token_bytes(); i++)
      expected.bytes[kv.k][static_cast<size_t>(token) * kv.k_token_bytes() + i] = write;
    for (size_t i = 0; i < kv.v_token_bytes(); i++)
      expected.bytes[kv.v][static_cast<size_t>(token) * kv.v_token_bytes() + i] = write;
  }

  HostDevice device_{host_options()};
  OpCase case_{device_, "", 0};
  PagedShape shape_{.key_dim = 32, .value_dim = 64, .type = GetParam()};
  Paged paged_{case_, shape_};
};

TEST_P(FootprintTest, RopeAppendWritesTheTokensOfItsRows) {
  Random random(3);
  for (int i = 0; i < 20; i++) {
    paged_.fill_map(random);
    device::RopeAppend op;
    op.rows = paged_.row_map();
    op.kv = paged_.kv();
    Touched found, expected;
    op.footprint(found);
    for (int64_t r = 0; r < shape_.live; r++) use(paged_, paged_.token_of_row(r), true, expected);
    EXPECT_EQ(found.bytes, expected.bytes);
  }
}

TEST_P(FootprintTest, AttentionReadsTheVisibleTokensOfItsRows) {
  Random random(4);
  for (const int64_t window : {0, 1, 3, 4, 5, 100}) {
    paged_.fill_map(random);
    device::Attention op;
    op.rows = paged_.row_map();
    op.kv = paged_.kv();
    op.window = window;
    Touched found, expected;
    op.footprint(found);
    for (int64_t r = 0; r < shape_.live; r++) {
      const int64_t position = paged_.positions->at(0, r);
      for (int64_t p = 0; p <= position; p++) {
        if (window == 0 || p > position - window) use(paged_, paged_.token(paged_.slots->at(0, r), p), false, expected);
      }
    }
    EXPECT_EQ(found.bytes, expected.bytes) << "window " << window;
  }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, FootprintTest, testing::ValuesIn(kernels::kKvTypes),
                         [](const auto& tested) { return kernels::kv_type_name(tested.param); });

TEST(Footprint, ExpertFfnReadsTheSlotsOfTheExpertsOfItsRows) {
  HostDevice device(host_options());
  const Grid<int32_t> ids(device, 3, 2, 1, 1), slot_of(device, 1, 5, 2, 0), live(device, 1, 1, 0, 0);
  const Grid<int64_t> offsets(device, 1, 3, 1, 0);
  const auto memory = make_buffer(device, 64);
  slot_of.set_row(0, {2, -1, 0, 1, -1});
  offsets.set_row(0, {8, 30, 44});
  ids.set_row(0, {0, 1});
  ids.set_row(1, {2, 0});
  ids.set_row(2, {3, 4});  // not live
  live.at(0, 0) = 2;
  device::ExpertFfn op;
  op.ids = ids;
  op.live = live;
  op.slot_of = slot_of;
  op.slots = {memory.get(), offsets};
  op.blob.bytes = 12;
  Touched found, expected;
  op.footprint(found);
  for (const size_t offset : {8, 44}) {
    for (size_t i = 0; i < 12; i++) expected.bytes[memory.get()][offset + i] = false;
  }
  EXPECT_EQ(found.bytes, expected.bytes);
}

}  // namespace
}  // namespace strata::test
