// A model opened for computing: its device, expert source and layers, and the steps of sequences through them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "base/stats.h"
#include "engine/adaptation.h"
#include "engine/config.h"
#include "engine/devices.h"
#include "engine/placing.h"
#include "engine/source_watch.h"
#include "experts/slot_plan.h"
#include "experts/sources/resident.h"
#include "gguf/gguf.h"
#include "model/part.h"

namespace strata::engine {

// Used by one thread. A failing step ends with an error and leaves the engine usable.
class Engine {
 public:
  // Decides where everything goes, says what does not fit before it loads anything, then loads. `model` and `stats`
  // outlive the engine.
  static Result<std::unique_ptr<Engine>> open(const gguf::Model& model, const EngineConfig& config, Stats& stats);
  ~Engine();

  const model::HParams& hparams() const { return hp_; }
  int64_t n_vocab() const { return hp_.n_vocab; }
  int64_t context() const { return state_limits_.max_tokens; }
  int max_rows() const { return step_limits_.max_rows; }
  // What was chosen, for people: device, kernels, threads, where experts are, memory.
  std::string describe() const;

  // kNoMemory when config.max_sequences are in use. The sequence must die before the engine.
  Result<model::SequenceState> make_sequence() { return pool_->make_sequence(); }

  // One step: the rows of all sequences together, at most max_rows(), each sequence at most once. On success the
  // sequences have advanced. kBadInput for ids outside the vocabulary, rows past the context or a sequence that is
  // lost(): nothing was computed and no sequence has changed. Any other failure happened while computing: no sequence
  // has advanced, those of recurrent models are lost() until restored.
  //
  // A step of many rows may stream the experts that the device's cache lacks (--stream-rows), through slots that the
  // cache lends (--prefill-borrow). The loan lasts while prompts do: it ends before a step of single rows, unless
  // `in_prompt` says that prompts still run, and with a step that fails. One that cannot be begun or ended is an error
  // of the step that needs it, in which nothing was computed and no sequence has changed.
  Status step(std::span<const model::BatchRows> batch, bool in_prompt = false);
  // Ends the loan, if there is one, when no prompt runs any more. What fails is tried again before the next step.
  Status end_loan();

  // Those that hear of the routing of every step from now on. Changed between steps.
  experts::RoutingObservers& routing() { return routing_; }
  const experts::RoutedModel& routed_model() const { return request_.profile->model(); }
  // Writes what config.expert_profile said, and the uses of experts since, to config.expert_profile_save, if it names a
  // file.
  Status save_profile() const;

  // Asked before every layer of a step; true ends the step with kCancelled. nullptr for never.
  void set_interrupt(std::function<bool()> interrupt) { part_->set_interrupt(std::move(interrupt)); }

  // Receives the logits [n_vocab] of a row of the last step.
  using LogitsSink = std::function<Status(int64_t row, std::span<const float> logits)>;
  // Computes the head for `rows` of the last step, in their order.
  Status logits(std::span<const int32_t> rows, const LogitsSink& sink);

  // Runs ids through a sequence in chunks. `chunk_done(first, n)` is called after each, while its rows can be asked for
  // logits; empty for none.
  using ChunkDone = std::function<Status(int64_t first, int64_t n)>;
  Status prefill(model::SequenceState& sequence, std::span<const int32_t> ids, const ChunkDone& chunk_done);

 private:
  explicit Engine(const gguf::Model& model, Stats& stats) : model_(model), stats_(stats) {}
  Status choose(const EngineConfig& config);
  // Opens what the engine computes on: the host, which may use `ram`, and the device that --device names.
  Status open_devices(uint64_t ram);
  bool on_host() const { return device_ == host_; }
  const experts::PartPlacement& placed() const { return plan_.parts.front(); }
  bool reads_files() const;  // in steps, past what RAM holds
  model::PartOptions part_options() const;
  Status load();
  // Has experts change places where some are cached, and not all.
  Status start_adaptation();
  // Begins or ends the loan as the step needs it; without one, experts may change places.
  Status settle_loan(bool streams, bool decode);
  Status finish_step();

  const gguf::Model& model_;
  Stats& stats_;
  EngineConfig config_;
  model::HParams hp_;
  const model::ArchInfo* arch_ = nullptr;
  PlacementRequest request_;
  experts::PlacementPlan plan_;
  model::StepLimits step_limits_;
  model::StateLimits state_limits_;
  std::unique_ptr<Devices> devices_;
  device::host::HostDevice* host_ = nullptr;
  device::Device* device_ = nullptr;  // that computes the layers
  std::unique_ptr<experts::ExpertSource> source_;
  std::unique_ptr<SourceWatch> watch_;  // null where no step reads files past the page cache
  experts::ResidentSource* resident_ = nullptr;  // the source, where it is a resident copy
  std::string source_report_;
  experts::RoutingObservers routing_;
  std::optional<experts::ProfileCounter> counter_;  // for config_.expert_profile_save
  std::unique_ptr<model::Part> part_;
  std::unique_ptr<Adaptation> adaptation_;  // null: experts stay where they are
  std::unique_ptr<model::SequencePool> pool_;
  int64_t rows_in_step_ = 0;
  bool loan_overdue_ = false;  // it could not be ended
};

}  // namespace strata::engine
