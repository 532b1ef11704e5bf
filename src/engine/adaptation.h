// Moves experts between the device's cache and the host's memory as answers go on: hears how rows are routed, decides
// every few steps which experts should be cached (experts/adapt.h), and has them change places (experts/swap.h).
#pragma once

#include <memory>
#include <vector>

#include "experts/adapt.h"
#include "experts/swap.h"

namespace strata::engine {

// What an adaptation is made from; all of it but `prior` outlives it.
struct AdaptationSpec {
  device::Device& device;
  device::Stream& compute;  // whose operations read the cache
  experts::ExpertCache& cache;
  experts::ExpertSource& source;
  const experts::ExpertLayout& layout;
  Stats& stats;
  experts::ResidentExchange* resident = nullptr;  // of a source that keeps in RAM what no cache holds
  const experts::ExpertProfile& prior;            // of the model; empty where nothing is known
  int64_t n_used = 0;                             // experts of a row
  int64_t every = 4;                              // steps between two decisions
  experts::AdaptOptions options = {};
};

// Used by the thread that runs the steps; routed() by the one that runs their host tasks. What fails costs no request
// anything: it is said in a warning, experts stay readable where they are, and after a while it is tried again.
class Adaptation final : public experts::RoutingObserver {
 public:
  // kNoMemory when there is no room for the swaps' buffers.
  static Result<std::unique_ptr<Adaptation>> create(const AdaptationSpec& spec);
  // What create() allocates, of pinned host memory.
  static uint64_t bytes_needed(const experts::ExpertLayout& layout, bool resident);

  void routed(int32_t layer, const device::In<int32_t>& ids) override;
  // Before a step, while nothing of the cache is lent: goes on with the moves under way, or decides on new ones.
  void between_steps();
  // Before slots are lent: no move is under way afterwards. False when that can't be reached; then none may be lent.
  bool settle();

 private:
  explicit Adaptation(const AdaptationSpec& spec);
  void decide();
  void report(const Status& status);

  experts::ExpertCache& cache_;
  int64_t every_;
  int64_t max_moves_;
  experts::UseCounts uses_;
  std::unique_ptr<experts::ExpertSwaps> swaps_;
  std::vector<bool> resident_;  // [n_layers][n_experts] in the cache
  int32_t last_layer_ = -1;     // that was heard of
  int64_t rows_ = 0;            // since the last decision
  int64_t steps_ = 0;
  int64_t pause_ = 0;           // decisions left out after a failure
};

}  // namespace strata::engine
