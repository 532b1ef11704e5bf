// The text is cut into windows of the context's length that do not overlap, each a sequence of its own. A model that
// expects a token for the beginning of a text gets it as the first of every window.
#include <algorithm>
#include <optional>

#include "base/counted.h"
#include "base/format.h"
#include "base/output_file.h"
#include "cli/model_choice.h"
#include "cli/profile/profiling.h"
#include "cli/streams.h"
#include "experts/routing_file.h"
#include "text/tokenizer.h"

namespace strata::cli {
namespace {

constexpr int64_t kAutoWindow = 2048;

struct Text {
  std::vector<int32_t> ids;
  int32_t bos;  // in front of every window; text::kNoToken for none
};

Result<Text> read_ids_of_text(const Settings& settings, const text::Tokenizer& tokenizer) {
  const std::string& path = settings.text(Key::kFile);
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxTextBytes));
  Text out{.ids = {}, .bos = tokenizer.add_bos() ? tokenizer.bos() : text::kNoToken};
  ASSIGN_OR_RETURN(out.ids, tokenizer.encode(text, {}));
  if (out.ids.empty()) return Error{ErrorCode::kBadInput, format("{}: there is no text in it", input_text(path))};
  return out;
}

// What is written must not be what is read, nor both the same.
Status check_outputs(const Settings& settings, const gguf::Model& model) {
  std::vector<std::string> others = {settings.text(Key::kFile), settings.text(Key::kExpertProfile)};
  for (const gguf::Shard& shard : model.shards()) others.push_back(shard.path);
  for (const Key key : {Key::kOut, Key::kRoutings}) {
    const std::string& out = settings.text(key);
    if (out.empty()) continue;
    for (const std::string& other : others) {
      if (out != other && !would_replace(out, other)) continue;
      return Error{ErrorCode::kBadInput, format("--{} {} would replace {}; give another name", setting(key).name,
                                                path_text(out), path_text(other))};
    }
    others.push_back(out);
  }
  return {};
}

Status check_has_experts(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(model));
  if (hp.n_expert_layers() > 0) return {};
  return Error{ErrorCode::kBadInput, format("{}: the model has no experts to record", model.path())};
}

class Recording {
 public:
  Recording(engine::Engine& engine, const std::string& routings)
      : engine_(engine), counter_(experts::ExpertProfile(engine.routed_model())) {
    engine_.routing().add(counter_);
    if (routings.empty()) return;
    recorder_.emplace(engine.routed_model(), engine.hparams().route.n_used, engine.max_rows(), routings);
    engine_.routing().add(*recorder_);
  }
  ~Recording() {
    engine_.routing().remove(counter_);
    if (recorder_) engine_.routing().remove(*recorder_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  Status open() { return recorder_ ? recorder_->open() : Status(); }
  Status run(const std::vector<int32_t>& window) {
    ASSIGN_OR_RETURN(model::SequenceState sequence, engine_.make_sequence());
    return engine_.prefill(sequence, window,
                           [&](int64_t, int64_t) { return recorder_ ? recorder_->write_step() : Status(); });
  }
  Status commit(const std::string& out) {
    if (recorder_) RETURN_IF_ERROR(recorder_->commit());
    return out.empty() ? Status() : counter_.profile().save(out);
  }

 private:
  engine::Engine& engine_;
  experts::ProfileCounter counter_;
  std::optional<experts::RoutingRecorder> recorder_;
};

Status record_text(engine::Engine& engine, const Text& text, Recording& recording) {
  const bool has_bos = text.bos != text::kNoToken;
  const auto step = static_cast<size_t>(engine.context()) - (has_bos ? 1 : 0);
  if (step == 0) return Error{ErrorCode::kBadInput, "--ctx 1 leaves no room beside the token that begins a text"};
  for (size_t first = 0; first < text.ids.size(); first += step) {
    const size_t n = std::min(step, text.ids.size() - first);
    std::vector<int32_t> window(n + (has_bos ? 1 : 0), text.bos);
    const auto from = text.ids.begin() + static_cast<std::ptrdiff_t>(first);
    std::copy_n(from, n, window.end() - static_cast<std::ptrdiff_t>(n));
    RETURN_IF_ERROR(recording.run(window));
  }
  return {};
}

}  // namespace

Status profile_record(const Settings& settings) {
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFast));
  if (config.context == 0) config.context = kAutoWindow;
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  RETURN_IF_ERROR(check_outputs(settings, *model));
  RETURN_IF_ERROR(check_has_experts(*model));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const Text text, read_ids_of_text(settings, *tokenizer));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, open_engine(settings, *model, config, stats));
  Recording recording(*engine, settings.text(Key::kRoutings));
  RETURN_IF_ERROR(recording.open());
  RETURN_IF_ERROR(record_text(*engine, text, recording));
  RETURN_IF_ERROR(recording.commit(settings.text(Key::kOut)));
  if (settings.on(Key::kStats)) write_stderr(stats.to_text());
  for (const Key key : {Key::kOut, Key::kRoutings}) {
    if (is_standard_output(settings.text(key))) return {};
  }
  return write_stdout(format("{}: the experts of {} are recorded\n", engine->routed_model().text(),
                             counted(static_cast<int64_t>(text.ids.size()), "token")));
}

}  // namespace strata::cli
