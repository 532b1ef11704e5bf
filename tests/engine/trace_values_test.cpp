// What the blocks of a qwen4exp model read and compute in each layer against an independent float64 run: where a
// residual is off (trace_test), this says what in the layer began it.
#include <cstring>

#include "device/forwarding_device.h"
#include "engine/traced_model.h"

namespace strata::test {
namespace {

using nlohmann::json;

std::vector<float> row_of(const device::View<float>& view, int64_t row) {
  return {view.row(row), view.row(row) + view.cols};
}

// The values of one row of a step, as its operations meet them.
struct Values {
  std::vector<float> embedding;
  std::vector<std::vector<float>> mixed, amounts, added;  // of every mixture, and what is added to the streams
  std::vector<std::vector<float>> residuals;              // behind each addition
  std::vector<std::vector<int32_t>> experts;              // of each layer
  std::vector<std::vector<float>> weights;
  std::vector<float> features;  // what the n-gram layer adds
};

// Looks at operations before and after they run; those of the head have but the one row.
class Watch {
 public:
  Values values;
  int64_t row = 0;

  void before(const device::HyperAdd& op) { values.added.push_back(row_of(op.y, row)); }
  void before(const device::DistantConv& op) { features_ = row_of(op.x, row); }
  template <class Op>
  void before(const Op&) {}

  void after(const device::Embed& op) { values.embedding = row_of(op.y, row); }
  void after(const device::HyperMix& op) {
    const int64_t at = op.amounts.empty() ? 0 : row;
    values.mixed.push_back(row_of(op.y, at));
    if (!op.amounts.empty()) values.amounts.push_back(row_of(op.amounts, at));
  }
  void after(const device::HyperAdd& op) { values.residuals.push_back(row_of(op.x, row)); }
  void after(const device::DistantConv& op) {
    values.features = row_of(op.x, row);
    for (size_t i = 0; i < features_.size(); i++) values.features[i] -= features_[i];
  }
  void after(const device::Router& op) {
    values.experts.emplace_back(op.ids.row(row), op.ids.row(row) + op.ids.cols);
    values.weights.push_back(row_of(op.weights, row));
  }
  template <class Op>
  void after(const Op&) {}

 private:
  std::vector<float> features_;  // before
};

class WatchedStream final : public device::Stream {
 public:
  WatchedStream(std::unique_ptr<device::Stream> inner, Watch& watch)
      : Stream(inner->device(), inner->name()), inner_(std::move(inner)), watch_(watch) {}
  void copy(device::Memory& dst, size_t dst_offset, const device::Memory& src, size_t src_offset, size_t bytes,
            SourceSite site) override {
    inner_->copy(dst, dst_offset, src, src_offset, bytes, site);
  }
  void fill_zero(device::Memory& dst, size_t offset, size_t bytes, SourceSite site) override {
    inner_->fill_zero(dst, offset, bytes, site);
  }
  void record(device::Event& event) override { inner_->record(event); }
  void wait(const device::Event& event) override { inner_->wait(event); }
  device::Ticket host_task(const device::HostTask& task) override { return inner_->host_task(task); }
  void wait(device::Ticket ticket) override { inner_->wait(ticket); }
  void abort(Error error) override { inner_->abort(std::move(error)); }
  Status synchronize() override { return inner_->synchronize(); }
  void reset() override { inner_->reset(); }

 private:
  void submit(const device::Launch& launch) override { find_and_run(launch, device::AllOps()); }
  template <class... Ops>
  void find_and_run(const device::Launch& launch, device::OpList<Ops...>) {
    (void)((launch.op == device::op_index<Ops>() && run<Ops>(launch)) || ...);
  }
  template <class Op>
  bool run(const device::Launch& launch) {
    Op op;
    std::memcpy(&op, launch.args, sizeof op);
    watch_.before(op);
    inner_->enqueue(op, launch.site);
    watch_.after(op);
    return true;
  }

  std::unique_ptr<device::Stream> inner_;
  Watch& watch_;
};

class WatchedDevice final : public ForwardingDevice {
 public:
  WatchedDevice(device::Device& inner, Watch& watch) : ForwardingDevice(inner), watch_(watch) {}
  std::unique_ptr<device::Stream> make_stream(std::string name) override {
    return std::make_unique<WatchedStream>(ForwardingDevice::make_stream(std::move(name)), watch_);
  }

 private:
  Watch& watch_;
};

void expect_numbers(const json& traced, const std::vector<float>& values, const char* what) {
  ASSERT_EQ(traced.size(), values.size()) << what;
  for (size_t i = 0; i < values.size(); i++) {
    EXPECT_NEAR(values[i], traced[i].get<double>(), kTraceTolerance) << what << " " << i;
  }
}

void expect_layer(const json& layer, const Values& values, size_t index) {
  const size_t mixer = 2 * index, ffn = mixer + 1;
  expect_vector(layer.at("hc_attn_mixed"), values.mixed[mixer], "input of the mixer");
  expect_numbers(layer.at("hc_attn_inject"), values.amounts[mixer], "amounts of the mixer");
  expect_vector(layer.at("mixer_out"), values.added[mixer], "output of the mixer");
  expect_vector(layer.at("hc_ffn_mixed"), values.mixed[ffn], "input of the experts");
  expect_numbers(layer.at("hc_ffn_inject"), values.amounts[ffn], "amounts of the experts");
  EXPECT_EQ(layer.at("experts").get<std::vector<int32_t>>(), values.experts[index]);
  expect_numbers(layer.at("weights"), values.weights[index], "weights of the experts");
  expect_vector(layer.at("ffn_out"), values.added[ffn], "output of the experts");
  expect_streams(layer.at("hidden"), values.residuals[ffn], "residual");
  if (layer.contains("ple_out")) expect_streams(layer.at("ple_out"), values.features, "n-gram features");
}

TEST(TraceValues, BlocksReadAndComputeWhatTheReferenceDoes) {
  TracedModel model("qwen4exp");
  const auto n_layers = static_cast<size_t>(model.hparams().n_layers);
  size_t layers = 0;
  const int n = for_each_traced_position("qwen4exp", [&](const std::vector<int32_t>& ids, const json& position) {
    Watch watch;
    watch.row = std::ssize(ids) - 1;
    WatchedDevice device(model.host(), watch);
    std::vector<float> logits;
    model.run(ids, static_cast<int>(n_layers), device, [&](model::Part& part) {
      const auto last = static_cast<int32_t>(watch.row);
      part.head({&last, 1});
      EXPECT_TRUE(part.finish().ok());
      const Status status = part.logits(0, [&](std::span<const float> row) -> Status {
        logits.assign(row.begin(), row.end());
        return {};
      });
      EXPECT_TRUE(status.ok());
    });
    const Values& values = watch.values;
    ASSERT_EQ(values.mixed.size(), 2 * n_layers + 1);
    ASSERT_EQ(values.added.size(), 2 * n_layers);
    ASSERT_EQ(values.experts.size(), n_layers);
    expect_vector(position.at("embedding"), values.embedding, "embedding");
    for (const json& layer : position.at("layers")) {
      const size_t index = layer.at("layer");
      SCOPED_TRACE(testing::Message() << "position " << ids.size() - 1 << ", layer " << index);
      expect_layer(layer, values, index);
      layers++;
    }
    expect_vector(position.at("final_norm_or_mix"), values.mixed.back(), "input of the output matrix");
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    std::vector<float> first;
    for (size_t i = 0; i < 4; i++) first.push_back(static_cast<float>(double{logits[i]} - std::log(sum)));
    expect_numbers(position.at("logprob_first"), first, "log-probabilities");
  });
  EXPECT_EQ(n, 2 * 4);
  EXPECT_EQ(layers, 8 * n_layers);
}

}  // namespace
}  // namespace strata::test
