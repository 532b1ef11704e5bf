// The residual after each layer against an independent float64 run: where a log-probability is off, this says which
// layer began it.
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "device/host/host_device.h"
#include "experts/sources/arena.h"
#include "model/expert_layout.h"
#include "model/part.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using nlohmann::json;

// The last row of some tokens behind the first `last` layers of a golden model: a part that ends there leaves it.
class FirstLayers {
 public:
  explicit FirstLayers(const std::string& arch) {
    model_ = gguf::Model::open(golden_path("arch/" + arch + "/model-bf16.gguf"), real_file_system()).value();
    arch_ = model::find_architecture(*model_).value();
    hp_ = arch_->read(model::Keys(*model_, arch)).value();
    layout_ = model::expert_layout(*model_, hp_).value();
    source_ = experts::ArenaSource::create(*model_, layout_, device_, device_.compute().pool(), stats_).value();
  }
  const model::HParams& hparams() const { return hp_; }

  std::vector<float> residual(const std::vector<int32_t>& ids, int last) {
    model::PartOptions options;
    options.step = {.max_rows = 16, .max_outputs = 1};
    options.state = {.max_sequences = 1, .max_checkpoints = 0, .max_tokens = 64};
    options.blob_bytes = layout_.largest_blob_bytes();
    const auto part = model::Part::create({.model = *model_,
                                           .arch = *arch_,
                                           .hp = hp_,
                                           .layout = layout_,
                                           .source = *source_,
                                           .device = device_,
                                           .compute = device_.compute(),
                                           .stats = stats_,
                                           .first = 0,
                                           .last = last,
                                           .slots = {}},
                                          options)
                          .value();
    model::SequencePool pool(options.state, {{&part->state(), &part->stream()}}, stats_);
    model::SequenceState sequence = pool.make_sequence().value();
    EXPECT_TRUE(sequence.reserve(static_cast<int64_t>(ids.size())).ok());
    sequence.note_ids(0, ids);
    const model::BatchRows batch[] = {{&sequence, ids}};
    part->begin(batch, false);
    while (part->queue_more()) continue;
    const Status status = part->finish();
    EXPECT_TRUE(status.ok()) << status.error().message;
    const device::View<float> hidden = part->hidden(static_cast<int64_t>(ids.size()));
    const float* row = hidden.row(hidden.rows - 1);
    return {row, row + hidden.cols};
  }

 private:
  Stats stats_;
  device::host::HostDevice device_{{.budget_bytes = uint64_t{1} << 30, .threads = {.n_threads = 1},
                                    .kernels = *kernels::select_kernels("auto")}};
  std::unique_ptr<gguf::Model> model_;
  const model::ArchInfo* arch_ = nullptr;
  model::HParams hp_;
  experts::ExpertLayout layout_;
  std::unique_ptr<experts::ArenaSource> source_;
};

// The norm and the first values of one stream, as traced. Values are of float32 runs over at most 8 layers: the
// reference README's 1e-4 for log-probabilities of models with delta nets, in the measure of the stream's own norm.
void expect_stream(const json& traced, const float* stream, int64_t dim) {
  constexpr double kTolerance = 1e-4;
  double sum = 0;
  for (int64_t i = 0; i < dim; i++) sum += double{stream[i]} * stream[i];
  const double l2 = traced.at("l2");
  EXPECT_NEAR(std::sqrt(sum), l2, kTolerance * l2);
  const json& first = traced.at("first");
  ASSERT_EQ(first.size(), 4u);
  for (size_t i = 0; i < 4; i++) EXPECT_NEAR(stream[i], first[i].get<double>(), kTolerance * l2) << i;
}

class Trace : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Trace, testing::Values("qwen3moe", "qwen4exp"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(Trace, TheResidualAgreesAfterEveryLayer) {
  const std::string folder = golden_path(std::string("arch/") + GetParam());
  const json reference = json::parse(std::ifstream(folder + "/reference.json"));
  const json trace = json::parse(std::ifstream(folder + "/trace.json"));
  FirstLayers layers(GetParam());
  const model::HParams& hp = layers.hparams();
  int compared = 0;
  for (const json& sequence : trace.at("sequences")) {
    const auto all = reference.at("sequences").at(sequence.at("sequence").get<size_t>()).at("ids");
    for (const json& position : sequence.at("positions")) {
      std::vector<int32_t> ids = all.get<std::vector<int32_t>>();
      ids.resize(position.at("position").get<size_t>() + 1);
      ASSERT_EQ(ids.back(), position.at("token"));
      for (const json& layer : position.at("layers")) {
        const int index = layer.at("layer");
        SCOPED_TRACE(testing::Message() << "position " << ids.size() - 1 << ", layer " << index);
        const std::vector<float> row = layers.residual(ids, index + 1);
        const json streams = layer.at("hidden").is_array() ? layer.at("hidden") : json::array({layer.at("hidden")});
        ASSERT_EQ(streams.size(), static_cast<size_t>(hp.n_streams));
        for (int c = 0; c < hp.n_streams; c++) {
          expect_stream(streams[static_cast<size_t>(c)], row.data() + c * hp.dim, hp.dim);
          compared++;
        }
      }
    }
  }
  EXPECT_EQ(compared, 2 * 4 * hp.n_layers * hp.n_streams);
}

}  // namespace
}  // namespace strata::test
