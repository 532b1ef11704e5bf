// Continuous batching: the rows of running answers and the chunks of prompts share steps; answers end, new requests
// take their place.
//
// While answers run, a chunk of a prompt is cut so that no answer waits longer for its next token than max_gap_ms,
// going by the measured speed. A request's text does not depend on what else is in its batch (but for the delta net's
// chunk form, see EngineConfig::deterministic).
//
// A request that continues a conversation has its sequence and starts with the next step. The others start in the order
// they came, as sequences are free; they wait while conversations hold all of them, of which the scheduler takes none
// away: whoever keeps conversations decides which to end.
//
// Where a model has several parts, the chunks of prompts follow one another through them as long as nothing else is to
// be done: no answer runs, nobody has come, nobody has cancelled.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace strata::engine {

struct SchedulerOptions {
  int64_t max_gap_ms = 500;
  size_t max_queued = 1024;  // requests that wait; more are refused
};

// submit() and RequestHandle are for any thread; step() for the one that owns the engine. Must die before the engine,
// with no request left or none that is to be heard of again.
class Scheduler : private StepSource {
 public:
  Scheduler(Engine& engine, const text::Tokenizer& tokenizer, const SchedulerOptions& options, Clock& clock);
  ~Scheduler() override;

  // `conversation`: the one to continue, in use by no other request until on_finish; null for a sequence of its own.
  // `listener` lives until on_finish. kBadInput for an empty prompt, one that leaves no room in the context, ids
  // outside the vocabulary and parameters that can't be; kNoMemory when max_queued are waiting. Nothing is computed
  // yet.
  Result<std::shared_ptr<RequestHandle>> submit(Conversation* conversation, std::vector<int32_t> prompt,
                                                const RequestParams& params, RequestListener& listener);

  // One step for all that can run, and those that follow it. False when there is nothing to do until something happens
  // elsewhere: a request is submitted, or a conversation ends whose sequence a waiting request can take.
  bool step();

 private:
  struct Request;
  // A part of a step: rows of one request, and whether the last of them is to be sampled.
  struct Piece {
    Request* request;
    std::span<const int32_t> ids;
    int32_t last_row;
    bool sample;
  };
  // A step on its way.
  struct Flight {
    std::vector<Piece> pieces;
    std::vector<model::BatchRows> batch;
    int64_t started_ns = 0;
  };

  void take_cancelled();
  void admit();
  bool find_sequence(Request& request);
  void start(std::unique_ptr<Request> starting);
  // Whether there is anything to compute in it.
  bool form_step(Flight& flight);
  bool may_follow();
  int64_t chunk_rows() const;
  bool run_steps();
  std::span<const model::BatchRows> next() override;
  Status done() override;
  void end_failed();
  void advance_prompts(Flight& flight);
  void sample_pieces(const Flight& flight);
  void take_token(Request& request, std::span<const float> logits);
  void publish(Request& request, int32_t id, std::span<const float> logits);
  void finish(Request& request, Finish reason, Status error = {});
  bool retire();  // whether any request ended

  Engine& engine_;
  const text::Tokenizer& tokenizer_;
  SchedulerOptions options_;
  Clock& clock_;
  Mutex mutex_;                                    // guards arrivals_
  std::deque<std::unique_ptr<Request>> arrivals_;  // submitted, not yet seen by step()
  std::deque<std::unique_ptr<Request>> queued_;    // waiting for a sequence
  std::vector<std::unique_ptr<Request>> running_;
  std::atomic<size_t> n_waiting_{0};  // arrivals and queued
  std::vector<Flight> flights_;       // [parts of the model], used in turn
  uint64_t n_begun_ = 0, n_done_ = 0;  // steps; those between are on their way
  double prompt_rows_per_ns_ = 0;  // measured, 0 before the first chunk
};

}  // namespace strata::engine
