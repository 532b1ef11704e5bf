// A model opened for computing: its devices, expert source and layers, and the steps of sequences through them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "base/stall_watch.h"
#include "base/stats.h"
#include "engine/adaptation.h"
#include "engine/config.h"
#include "engine/devices.h"
#include "engine/pipeline.h"
#include "engine/placing.h"
#include "engine/source_watch.h"
#include "experts/link_share.h"
#include "experts/slot_plan.h"
#include "experts/sources/resident.h"
#include "gguf/gguf.h"
#include "model/part.h"

namespace strata::engine {

// Steps that follow one another. Called on the thread that runs them, while nothing is computed.
class StepSource {
 public:
  virtual ~StepSource() = default;
  // The rows of the next step, at most max_rows() of the engine, each sequence at most once; a sequence that has rows
  // in steps on their way is continued behind those. What they refer to stays until the step is done. Empty: no step
  // follows, and next() is not called again.
  virtual std::span<const model::BatchRows> next() = 0;
  // The oldest step on its way is done: its sequences have advanced but for those whose failure() is set, and its rows
  // can be asked for logits. An error ends all steps.
  virtual Status done() = 0;
};

// Used by one thread. A failing step ends with an error and leaves the engine usable.
class Engine {
 public:
  // Decides where everything goes, says what does not fit before it loads anything, then loads. `model` and `stats`
  // outlive the engine.
  static Result<std::unique_ptr<Engine>> open(const gguf::Model& model, const EngineConfig& config, Stats& stats);
  // Fails as open() would before it loads anything; what it takes for that is given back.
  static Status check(const gguf::Model& model, const EngineConfig& config);
  ~Engine();

  const model::HParams& hparams() const { return hp_; }
  int64_t n_vocab() const { return hp_.n_vocab; }
  int64_t context() const { return state_limits_.max_tokens; }
  int max_rows() const { return step_limits_.max_rows; }
  // Runs of layers, each on a device of its own; as many steps can be on their way at once.
  int n_parts() const { return static_cast<int>(parts_.size()); }
  const experts::PlacementPlan& placement() const { return plan_; }
  const experts::PartNeeds& part_needs(int part) const { return request_.parts[static_cast<size_t>(part)]; }
  const experts::ExpertLayout& layout() const { return request_.layout; }
  // Time as the devices have it: simulated, on simulated ones.
  int64_t now_ns() const { return devices_->now_ns(); }
  // Rate at which the part's device gets experts from RAM; 0 where it gets none, or that was not measured.
  double link_bytes_per_second(int part) const { return parts_[static_cast<size_t>(part)].link_rates.copies; }
  // Of the experts in RAM, what devices can copy out of at the rate of their links.
  uint64_t pinned_expert_bytes() const { return pinned_expert_bytes_; }
  // What was chosen, for people: device, kernels, threads, where experts are, memory.
  std::string describe() const;

  // kNoMemory when config.max_sequences are in use. The sequence must die before the engine.
  Result<model::SequenceState> make_sequence() { return pool_->make_sequence(); }

  // One step: the rows of all sequences together, at most max_rows(), each sequence at most once. On success the
  // sequences have advanced. kBadInput for ids outside the vocabulary, rows past the context or a sequence that is
  // lost(): nothing was computed and no sequence has changed. Any other failure happened while computing: no sequence
  // has advanced, those of recurrent models are lost() until restored.
  //
  // A sequence of which a row of the n-gram table cannot be read fails alone: it does not advance, and its failure() is
  // set. Where all of the batch fail so, their first failure is the step's.
  //
  // A step of many rows may stream the experts that the device's cache lacks (--stream-rows), through slots that the
  // cache lends (--prefill-borrow). The loan lasts while prompts do: it ends before a step of single rows, unless
  // `in_prompt` says that prompts still run, and with a step that fails. One that cannot be begun or ended is an error
  // of the step that needs it, in which nothing was computed and no sequence has changed.
  Status step(std::span<const model::BatchRows> batch, bool in_prompt = false);
  // The same for steps that follow one another: while a part of the model computes one, the part before it computes the
  // next. A step that is refused (kBadInput, or a loan that cannot be begun) ends the row after those before it are
  // done; any other failure is one of all steps on their way.
  Status steps(StepSource& source, bool in_prompt = false);
  // Ends the loan, if there is one, when no prompt runs any more. What fails is tried again before the next step.
  Status end_loan();

  // Those that hear of the routing of every step from now on. Changed between steps.
  experts::RoutingObservers& routing() { return routing_; }
  const experts::RoutedModel& routed_model() const { return request_.profile->model(); }
  // Writes what config.expert_profile said, and the uses of experts since, to config.expert_profile_save, if it names a
  // file.
  Status save_profile() const;

  // Asked before every layer of a step, by several threads at once where there are several parts; true ends the steps
  // on their way with kCancelled. nullptr for never.
  void set_interrupt(const std::function<bool()>& interrupt);

  // Receives the logits [n_vocab] of a row of the last step.
  using LogitsSink = std::function<Status(int64_t row, std::span<const float> logits)>;
  // Computes the head for `rows` of the last step, in their order; for those that end in logits (model::BatchRows) the
  // step has done so.
  Status logits(std::span<const int32_t> rows, const LogitsSink& sink);

  // Runs ids through a sequence in chunks. `chunk_done(first, n)` is called after each, while its rows can be asked for
  // logits; empty for none.
  using ChunkDone = std::function<Status(int64_t first, int64_t n)>;
  Status prefill(model::SequenceState& sequence, std::span<const int32_t> ids, const ChunkDone& chunk_done);

 private:
  explicit Engine(const gguf::Model& model, Stats& stats) : model_(model), stats_(stats) {}
  Status choose(const EngineConfig& config);
  // A run of layers on a device.
  struct EnginePart {
    std::unique_ptr<RoutingLog> log;  // null where there is one part alone
    std::unique_ptr<model::Part> part;
    std::unique_ptr<Adaptation> adaptation;  // null: the experts of its device's cache stay where they are
    experts::LinkRates link_rates;           // of its device; zeros where they were not measured
  };

  // The device that the part computes on.
  device::Device& device_of(size_t part) const;
  bool on_host() const { return &device_of(0) == host_; }
  bool reads_files() const;  // in steps, past what RAM holds
  // Whether every expert lies in page-locked memory for good, where devices may read it.
  bool all_page_locked() const;
  model::PartOptions part_options(size_t part) const;
  // Of the experts that the part's device lacks, how many it reads over the link; empty for none.
  Result<std::vector<int32_t>> link_shares(size_t part);
  Status load();
  Status load_parts();
  Status load_part(size_t part, std::vector<int32_t> shares);
  Status connect_parts();
  // Has experts change places where some are cached, and not all.
  Status start_adaptation();
  std::string cached_text() const;
  std::string device_text() const;

  // Whether the rows can be computed; kBadInput says why not.
  Status check(std::span<const model::BatchRows> batch) const;
  Status begin_step(std::span<const model::BatchRows> batch, bool in_prompt);
  Status turn();
  // Begins or ends loans as the step needs it; without one, experts may change places. Sets streams_.
  Status settle_loans(int64_t n_rows, bool decode);

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
  std::unique_ptr<StallWatch> stall_watch_;  // null: --stall-notice-s 0
  std::unique_ptr<experts::ExpertSource> source_;
  std::unique_ptr<SourceWatch> watch_;  // null where no step reads files past the page cache
  experts::ResidentSource* resident_ = nullptr;  // the source, where it is a resident copy
  std::string source_report_;
  uint64_t pinned_expert_bytes_ = 0;
  uint64_t n_allocations_ = 0;  // of the devices, that the start or the counter knows of
  experts::RoutingObservers routing_;
  std::optional<experts::ProfileCounter> counter_;  // for config_.expert_profile_save
  std::vector<EnginePart> parts_;
  std::unique_ptr<Adaptation> copy_adaptation_;  // of a resident copy, where no device has a cache
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<model::SequencePool> pool_;
  std::vector<bool> streams_;  // [parts] whether the step that is begun streams
  int64_t rows_in_step_ = 0;
  bool loan_overdue_ = false;  // it could not be ended
  // --deterministic where devices cannot read all experts over their links: steps stream them, those that decode too.
  bool always_streams_ = false;
};

}  // namespace strata::engine
