// The parts of a model one behind the other, each on a device of its own, and the steps on their way through them.
//
// Steps go in turns. In a turn every part computes the step that it holds, and at its end each step moves on to the
// next part, so that the first one is free for another step: part i works on a chunk of a prompt while part i + 1
// works on the chunk before. One thread queues for all of them, a layer of each part in turn where layers stream, since
// queueing those waits for layers before them; whatever queues at once runs beside. The end of a turn waits for all
// parts: then one failure fails all that is on its way, nothing waits for a part that has failed, and between turns
// nothing is at work on sequences, caches and loans.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/hand_off.h"
#include "engine/routing_log.h"
#include "model/part.h"

namespace strata::engine {

// A step on its way.
struct PipelinedStep {
  uint64_t number = 0;
  std::vector<model::BatchRows> batch;  // with positions
  int64_t n_rows = 0;                   // 0: there is none
  std::vector<bool> streams;            // [parts]
};

// A part, and what it tells its routing to, if not to whom the routing is for.
struct PipelineStage {
  model::Part* part;
  RoutingLog* log = nullptr;
};

// Used by one thread. A turn allocates nothing.
class Pipeline {
 public:
  // `stages` live longer than the pipeline; there is a hand-off between each two of them. A step is of
  // `max_sequences` sequences at most.
  Pipeline(std::vector<PipelineStage> stages, std::vector<std::unique_ptr<HandOff>> hand_offs, size_t max_sequences);

  bool empty() const;
  // Rows of the sequence in steps on their way.
  int64_t rows_under_way(const model::SequenceState& sequence) const;
  // Gives the first part, which holds no step, a step. `streams`: [parts].
  void add(std::span<const model::BatchRows> batch, const std::vector<bool>& streams);
  // A turn: every part computes the step that it holds. On failure, the first one, no part is at work; the steps on
  // their way are to be abandoned.
  Status compute();
  // Ends a turn that has not failed: every step moves on.
  void advance();
  // The step that the last turn has brought to its end, if there is one. Until the next turn.
  const PipelinedStep* done() const { return held_.back().n_rows > 0 ? &held_.back() : nullptr; }
  // No step is on its way any more; their sequences hear that they failed.
  void abandon();

 private:
  void begin(size_t i);
  void queue();
  void give_up_all_but(size_t i);
  Status finish();

  std::vector<PipelineStage> stages_;
  std::vector<std::unique_ptr<HandOff>> hand_offs_;  // [stages - 1]
  std::vector<PipelinedStep> held_;                  // by each stage; behind them what is done
  uint64_t n_added_ = 0;
};

}  // namespace strata::engine
