#include "engine/golden_check.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/golden.h"

namespace strata::test {
namespace {

using nlohmann::json;

json read_json(const std::string& path) {
  std::ifstream in(path);
  return json::parse(in);
}

std::vector<float> log_softmax(std::span<const float> logits) {
  double max = -INFINITY;
  for (const float x : logits) max = std::max<double>(max, x);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  const double log_sum = max + std::log(sum);
  std::vector<float> out;
  for (const float x : logits) out.push_back(static_cast<float>(x - log_sum));
  return out;
}

// Compares rows of one run as they come.
class Comparison {
 public:
  Comparison(const GoldenModel& golden, engine::Engine& engine, std::vector<float>* bits)
      : golden_(golden), engine_(engine), bits_(bits) {}

  // Rows [row, row + n) of the last step are rows [at, at + n) of sequence s.
  Status rows(size_t s, int64_t at, int64_t row, int64_t n) {
    const GoldenSequence& sequence = golden_.sequences[s];
    std::vector<int32_t> wanted;
    for (int64_t i = 0; i < n; i++) {
      if (sequence.counts[static_cast<size_t>(at + i)]) wanted.push_back(static_cast<int32_t>(row + i));
    }
    return engine_.logits(wanted, [&](int64_t step_row, std::span<const float> logits) -> Status {
      const float* expected = sequence.logprobs.data() + (at + step_row - row) * golden_.n_vocab;
      const std::vector<float> found = log_softmax(logits);
      for (size_t i = 0; i < found.size(); i++) {
        const double difference = std::abs(double{found[i]} - double{expected[i]});
        if (!(difference <= worst_)) worst_ = difference;  // NaN stays
      }
      if (bits_ != nullptr) bits_->insert(bits_->end(), found.begin(), found.end());
      return {};
    });
  }
  double worst() const { return worst_; }

 private:
  const GoldenModel& golden_;
  engine::Engine& engine_;
  std::vector<float>* bits_;
  double worst_ = 0;
};

Status run_cut(engine::Engine& engine, Comparison& compare, size_t s, model::SequenceState& state,
               std::span<const int32_t> ids, int64_t chunk) {
  for (int64_t at = state.n_tokens(); at < static_cast<int64_t>(ids.size()); at += chunk) {
    const int64_t n = std::min<int64_t>(chunk, static_cast<int64_t>(ids.size()) - at);
    const model::BatchRows batch[] = {{&state, ids.subspan(static_cast<size_t>(at), static_cast<size_t>(n))}};
    RETURN_IF_ERROR(engine.step(batch));
    RETURN_IF_ERROR(compare.rows(s, at, 0, n));
  }
  return {};
}

Status run_with_checkpoint(engine::Engine& engine, Comparison& compare, size_t s, model::SequenceState& state,
                           std::span<const int32_t> ids) {
  const size_t half = ids.size() / 2;
  RETURN_IF_ERROR(run_cut(engine, compare, s, state, ids.first(half), 13));
  ASSIGN_OR_RETURN(const int checkpoint, state.checkpoint());
  for (int i = 0; i < 20; i++) {
    const int32_t other = (ids[0] + 7 * i) % 512;
    const model::BatchRows batch[] = {{&state, {&other, 1}}};
    RETURN_IF_ERROR(engine.step(batch));
  }
  RETURN_IF_ERROR(state.restore(checkpoint));
  return run_cut(engine, compare, s, state, ids, 13);
}

// Three sequences in each step, as far as each has tokens left.
Status run_batch_of_three(engine::Engine& engine, Comparison& compare, const GoldenModel& golden, size_t first) {
  constexpr int64_t kRows[] = {5, 1, 9};
  std::vector<model::SequenceState> states;
  states.reserve(3);
  for (int i = 0; i < 3; i++) {
    ASSIGN_OR_RETURN(auto state, engine.make_sequence());
    states.push_back(std::move(state));
  }
  while (true) {
    struct Piece {
      size_t s;
      int64_t at, row, n;
    };
    std::vector<model::BatchRows> batch;
    std::vector<Piece> pieces;
    int64_t row = 0;
    for (size_t i = 0; i < 3; i++) {
      const size_t s = (first + i) % golden.sequences.size();
      const std::vector<int32_t>& ids = golden.sequences[s].ids;
      const int64_t at = states[i].n_tokens();
      const int64_t n = std::min<int64_t>(kRows[i], static_cast<int64_t>(ids.size()) - at);
      if (n == 0) continue;
      batch.push_back({&states[i], std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(n))});
      pieces.push_back({s, at, row, n});
      row += n;
    }
    if (batch.empty()) return {};
    RETURN_IF_ERROR(engine.step(batch));
    for (const Piece& p : pieces) RETURN_IF_ERROR(compare.rows(p.s, p.at, p.row, p.n));
  }
}

Status run(engine::Engine& engine, Comparison& compare, const GoldenModel& golden, Cut cut) {
  if (cut == Cut::kBatchOfThree) return run_batch_of_three(engine, compare, golden, 0);
  for (size_t s = 0; s < golden.sequences.size(); s++) {
    const std::vector<int32_t>& ids = golden.sequences[s].ids;
    ASSIGN_OR_RETURN(auto state, engine.make_sequence());
    switch (cut) {
      case Cut::kWhole:
        RETURN_IF_ERROR(run_cut(engine, compare, s, state, ids, static_cast<int64_t>(ids.size())));
        break;
      case Cut::kChunksOf1:
        RETURN_IF_ERROR(run_cut(engine, compare, s, state, ids, 1));
        break;
      case Cut::kChunksOf7:
        RETURN_IF_ERROR(run_cut(engine, compare, s, state, ids, 7));
        break;
      case Cut::kChunksOf64:
        RETURN_IF_ERROR(run_cut(engine, compare, s, state, ids, 64));
        break;
      case Cut::kCheckpoint:
        RETURN_IF_ERROR(run_with_checkpoint(engine, compare, s, state, ids));
        break;
      case Cut::kBatchOfThree:
        break;
    }
  }
  return {};
}

}  // namespace

GoldenModel load_arch_golden(const std::string& name) {
  const std::string folder = golden_path("arch/" + name);
  const json reference = read_json(folder + "/reference.json");
  const std::vector<float> logprobs = read_f32(folder + "/logprobs.f32");
  const bool has_delta_net = name == "qwen3next" || name == "qwen35moe" || name == "qwen4exp";
  GoldenModel golden{folder + "/model-bf16.gguf", 512, has_delta_net ? 5e-4 : 1e-4, {}};
  size_t row = 0;
  for (const json& s : reference["sequences"]) {
    GoldenSequence sequence;
    sequence.ids = s["ids"].get<std::vector<int32_t>>();
    double margin = INFINITY;
    for (const double m : s["router_margin"]) {
      margin = std::min(margin, m);
      sequence.counts.push_back(margin > 2e-5);
    }
    const auto begin = logprobs.begin() + static_cast<int64_t>(row) * golden.n_vocab;
    sequence.logprobs.assign(begin, begin + static_cast<int64_t>(sequence.ids.size()) * golden.n_vocab);
    row += sequence.ids.size();
    golden.sequences.push_back(std::move(sequence));
  }
  return golden;
}

GoldenModel load_model_golden(const std::string& key) {
  const std::string folder = golden_path("models/");
  const json refs = read_json(folder + "refs.json");
  const json& m = refs["models"][key];
  const std::string file = m["file"];
  const std::string stem = folder + file.substr(0, file.size() - 5);
  GoldenModel golden{folder + file, refs["n_vocab"], 1e-3, {}};
  for (const char* name : {"A", "B"}) {
    GoldenSequence sequence;
    sequence.ids = m[std::string("seq") + name].get<std::vector<int32_t>>();
    const std::vector<float> exact = read_f32(stem + ".exact." + name + ".f32");
    sequence.counts.assign(sequence.ids.size(), name[0] == 'A');
    sequence.logprobs.resize(sequence.ids.size() * static_cast<size_t>(golden.n_vocab));
    std::vector<size_t> rows;
    if (name[0] == 'A') {
      for (size_t i = 0; i < sequence.ids.size(); i++) rows.push_back(i);
    } else {
      rows = refs["posB"].get<std::vector<size_t>>();
    }
    for (size_t i = 0; i < rows.size(); i++) {
      sequence.counts[rows[i]] = true;
      std::copy_n(exact.begin() + static_cast<int64_t>(i) * golden.n_vocab, golden.n_vocab,
                  sequence.logprobs.begin() + static_cast<int64_t>(rows[i]) * golden.n_vocab);
    }
    golden.sequences.push_back(std::move(sequence));
  }
  return golden;
}

GoldenModel load_demo_golden() {
  const json reference = read_json(golden_path("demo/reference.json"));
  GoldenModel golden{std::string(STRATA_MODELS_DIR) + "/tales-moe-q4_k_m.gguf", reference["n_vocab"], 1e-3, {}};
  GoldenSequence sequence;
  sequence.ids = reference["ids"].get<std::vector<int32_t>>();
  sequence.counts.assign(sequence.ids.size(), true);
  sequence.logprobs = read_f32(golden_path("demo/reference.logprobs.f32"));
  golden.sequences.push_back(std::move(sequence));
  return golden;
}

const char* cut_name(Cut cut) {
  switch (cut) {
    case Cut::kWhole:
      return "Whole";
    case Cut::kChunksOf1:
      return "ChunksOf1";
    case Cut::kChunksOf7:
      return "ChunksOf7";
    case Cut::kChunksOf64:
      return "ChunksOf64";
    case Cut::kBatchOfThree:
      return "BatchOfThree";
    case Cut::kCheckpoint:
      return "Checkpoint";
  }
  return "";
}

engine::EngineConfig test_config() {
  engine::EngineConfig config;
  config.kv_type = kernels::KvType::kF32;
  config.context = 1024;
  config.threads = 2;
  config.chunk = 1024;
  config.max_sequences = 3;
  config.max_checkpoints = 2;
  return config;
}

double worst_difference(const GoldenModel& golden, const engine::EngineConfig& config, Cut cut,
                        std::vector<float>* bits, Stats* stats) {
  Stats own;
  auto model = gguf::Model::open(golden.path, real_file_system());
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return -1;
  }
  auto engine = engine::Engine::open(**model, config, stats != nullptr ? *stats : own);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return -1;
  }
  Comparison compare(golden, **engine, bits);
  if (const Status status = run(**engine, compare, golden, cut); !status.ok()) {
    ADD_FAILURE() << status.error().message;
    return -1;
  }
  return compare.worst();
}

}  // namespace strata::test
