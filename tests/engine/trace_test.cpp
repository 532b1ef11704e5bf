// The residual after each layer against an independent float64 run: where a log-probability is off, this says which
// layer began it.
#include "engine/traced_model.h"

namespace strata::test {
namespace {

using nlohmann::json;

class Trace : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Trace, testing::Values("qwen3moe", "qwen4exp"),
                         [](const auto& row) { return std::string(row.param); });

// A part that ends with a layer leaves what it computes.
TEST_P(Trace, TheResidualAgreesAfterEveryLayer) {
  TracedModel model(GetParam());
  const model::HParams& hp = model.hparams();
  int layers = 0;
  const int n = for_each_traced_position(GetParam(), [&](const std::vector<int32_t>& ids, const json& position) {
    for (const json& layer : position.at("layers")) {
      const int index = layer.at("layer");
      SCOPED_TRACE(testing::Message() << "position " << ids.size() - 1 << ", layer " << index);
      model.run(ids, index + 1, model.host(), [&](model::Part& part) {
        const Status status = part.finish();
        EXPECT_TRUE(status.ok()) << status.error().message;
        const device::View<float> hidden = part.hidden(std::ssize(ids));
        ASSERT_EQ(hidden.cols, hp.n_streams * hp.dim);
        const float* row = hidden.row(hidden.rows - 1);
        expect_streams(layer.at("hidden"), {row, static_cast<size_t>(hidden.cols)}, "residual");
      });
      layers++;
    }
  });
  EXPECT_EQ(n, 2 * 4);
  EXPECT_EQ(layers, n * hp.n_layers);
}

}  // namespace
}  // namespace strata::test
