// Runs the first layers of a golden model on a few tokens, and compares vectors with what its trace says of them.
#pragma once

#include <cmath>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "device/host/host_device.h"
#include "experts/sources/arena.h"
#include "model/expert_layout.h"
#include "model/part.h"
#include "support/golden.h"

namespace strata::test {

class TracedModel {
 public:
  explicit TracedModel(const std::string& arch) {
    model_ = gguf::Model::open(golden_path("arch/" + arch + "/model-bf16.gguf"), real_file_system()).value();
    arch_ = model::find_architecture(*model_).value();
    hp_ = arch_->read(model::Keys(*model_, arch)).value();
    layout_ = model::expert_layout(*model_, hp_).value();
    source_ = experts::ArenaSource::create(*model_, layout_, host_, host_.compute().pool(), stats_).value();
  }
  const model::HParams& hparams() const { return hp_; }
  device::host::HostDevice& host() { return host_; }

  // Queues a step of all tokens through the first `last` layers, operation by operation, and calls use(part). The part
  // is on a device that is the host's or forwards to it.
  template <class Use>
  void run(const std::vector<int32_t>& ids, int last, device::Device& device, const Use& use) {
    model::PartOptions options;
    options.step = {.max_rows = 16, .max_outputs = 1};
    options.state = {.max_sequences = 1, .max_checkpoints = 0, .max_tokens = 64};
    options.blob_bytes = layout_.largest_blob_bytes();
    options.use_graphs = false;
    const auto part = model::Part::create({.model = *model_,
                                           .arch = *arch_,
                                           .hp = hp_,
                                           .layout = layout_,
                                           .source = *source_,
                                           .device = device,
                                           .compute = host_.compute(),
                                           .stats = stats_,
                                           .first = 0,
                                           .last = last,
                                           .slots = {}},
                                          options)
                          .value();
    model::SequencePool pool(options.state, {{&part->state(), &part->stream()}}, stats_);
    model::SequenceState sequence = pool.make_sequence().value();
    EXPECT_TRUE(sequence.reserve(std::ssize(ids)).ok());
    sequence.note_ids(0, ids);
    const model::BatchRows batch[] = {{&sequence, ids}};
    part->begin(batch, false);
    while (part->queue_more()) continue;
    use(*part);
  }

 private:
  Stats stats_;
  device::host::HostDevice host_{{.budget_bytes = uint64_t{1} << 30, .threads = {.n_threads = 1},
                                  .kernels = *kernels::select_kernels("auto")}};
  std::unique_ptr<gguf::Model> model_;
  const model::ArchInfo* arch_ = nullptr;
  model::HParams hp_;
  experts::ExpertLayout layout_;
  std::unique_ptr<experts::ArenaSource> source_;
};

// The norm and the first values of a vector, as traced. Values are of float32 runs over at most 8 layers: the reference
// README's 1e-4 for log-probabilities of models with delta nets, in the measure of the vector's own norm.
inline constexpr double kTraceTolerance = 1e-4;
inline void expect_vector(const nlohmann::json& traced, std::span<const float> values, const std::string& what) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  const double l2 = traced.at("l2");
  EXPECT_NEAR(std::sqrt(sum), l2, kTraceTolerance * l2) << what;
  const nlohmann::json& first = traced.at("first");
  ASSERT_EQ(first.size(), 4u);
  for (size_t i = 0; i < 4; i++) {
    EXPECT_NEAR(values[i], first[i].get<double>(), kTraceTolerance * l2) << what << " " << i;
  }
}
// One or several of them side by side.
inline void expect_streams(const nlohmann::json& traced, std::span<const float> values, const std::string& what) {
  if (!traced.is_array()) return expect_vector(traced, values, what);
  const size_t dim = values.size() / traced.size();
  for (size_t c = 0; c < traced.size(); c++) {
    expect_vector(traced[c], values.subspan(c * dim, dim), what + ", stream " + std::to_string(c));
  }
}

// Calls use(ids, position) for every position of an architecture's trace, with the tokens up to it; how many they are.
template <class Use>
int for_each_traced_position(const std::string& arch, const Use& use) {
  using nlohmann::json;
  const std::string folder = golden_path("arch/" + arch);
  const json reference = json::parse(std::ifstream(folder + "/reference.json"));
  const json trace = json::parse(std::ifstream(folder + "/trace.json"));
  int n = 0;
  for (const json& sequence : trace.at("sequences")) {
    const json& all = reference.at("sequences").at(sequence.at("sequence").get<size_t>()).at("ids");
    for (const json& position : sequence.at("positions")) {
      std::vector<int32_t> ids = all.get<std::vector<int32_t>>();
      ids.resize(position.at("position").get<size_t>() + 1);
      EXPECT_EQ(ids.back(), position.at("token"));
      use(ids, position);
      n++;
    }
  }
  return n;
}

}  // namespace strata::test
