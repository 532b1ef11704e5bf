// Moves experts between tiers as answers go on: hears how rows are routed, decides every few steps which experts should
// be in the faster one (experts/adapt.h), and has them change places: between a device's cache and the host's memory
// (experts/swap.h), or between the resident copy in RAM and the files, where RAM is the fastest tier there is.
#pragma once

#include <memory>
#include <vector>

#include "experts/adapt.h"
#include "experts/sources/resident.h"
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
  int first_layer = 0;            // of those whose experts the cache is for
  int last_layer = 0;             // one past
};

// The same for a resident copy over files.
struct CopyAdaptationSpec {
  experts::ResidentSource& copy;
  const experts::ExpertLayout& layout;
  const experts::ExpertProfile& prior;
  int64_t n_used = 0;
  int64_t every = 4;
  // A move costs one read of an expert, and a miss costs one each time: more of them pay than of moves over a link.
  experts::AdaptOptions options = {.max_moves = 16};
};

// A tier some of whose experts may change places with others.
class ChangingTier {
 public:
  virtual ~ChangingTier() = default;
  virtual bool holds(experts::ExpertKey key) const = 0;
  // Whether no moves are under way.
  virtual bool idle() const = 0;
  // As experts::ExpertSwaps.
  virtual Status begin(std::span<const experts::Move> moves) = 0;
  virtual Status advance() = 0;
  virtual Status settle() = 0;
};

// Used by the thread that runs the steps; routed() by the one that runs their host tasks. What fails costs no request
// anything: it is said in a warning, experts stay readable where they are, and after a while it is tried again.
class Adaptation final : public experts::RoutingObserver {
 public:
  // kNoMemory when there is no room for the swaps' buffers.
  static Result<std::unique_ptr<Adaptation>> create(const AdaptationSpec& spec);
  static std::unique_ptr<Adaptation> create(const CopyAdaptationSpec& spec);
  // What create() allocates, of pinned host memory.
  static uint64_t bytes_needed(const experts::ExpertLayout& layout, bool resident);

  void routed(int32_t layer, const device::In<int32_t>& ids) override;
  // Before a step, while nothing of the cache is lent: goes on with the moves under way, or decides on new ones.
  void between_steps();
  // Before slots are lent: no move is under way afterwards. False when that can't be reached; then none may be lent.
  bool settle();

 private:
  template <class Spec>
  Adaptation(const Spec& spec, int64_t max_moves, int32_t first_layer, int32_t last_layer,
             std::unique_ptr<ChangingTier> tier);
  void decide();
  void report(const Status& status);

  const experts::ExpertLayout& layout_;
  int32_t first_layer_, last_layer_;  // that the tier is for, and one past them
  int64_t every_;
  int64_t max_moves_;
  experts::UseCounts uses_;
  std::unique_ptr<ChangingTier> tier_;
  std::vector<bool> resident_;  // [n_layers][n_experts] in the tier
  int32_t heard_layer_ = -1;    // that was heard of last
  int64_t rows_ = 0;            // since the last decision
  int64_t steps_ = 0;
  int64_t pause_ = 0;  // decisions left out after a failure
};

}  // namespace strata::engine
