// A cache and the memory of the other experts, steps that read every expert where it is, and swaps between them.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "device/host/host_device.h"
#include "device/sim/machine.h"
#include "experts/exchange_source.h"
#include "experts/mixed_model.h"
#include "experts/sources/resident.h"
#include "experts/swap.h"

namespace strata::test {

// What is in RAM beside the cache.
enum class Beside {
  kTheOthers,     // exactly the experts that are not in the cache: a resident copy
  kLendRegionToo, // those, and the experts of the two highest slots
  kAll,           // every expert: an arena
  kRealCopy,      // as kTheOthers, in a ResidentSource over the model's file
};

struct SwapRigOptions {
  bool sim = true;
  Beside beside = Beside::kTheOthers;
  uint64_t seed = 1;    // of the order in which queued work runs
  bool manual = false;  // it runs when somebody waits for it, always in the same order
  int64_t slots = 6;
};

// Three layers, the middle one without experts, blobs of two sizes, 12 experts; as many slots as the options say.
class SwapRig {
 public:
  explicit SwapRig(const SwapRigOptions& options);

  // What a step sees: reads every expert where the tables say, all of those in slots by one stream. The first
  // difference from what it has to be, if there is one. A step that a device's failure ends is run once more.
  std::optional<std::string> step();
  // Moves that choose_moves could give: distinct, in the layer of `seed`'s choice.
  std::vector<experts::Move> some_moves(uint64_t seed, int64_t n) const;
  bool resident(experts::ExpertKey key) const { return cache->slot(key) >= 0; }
  std::set<experts::ExpertKey> residents() const;
  std::vector<std::string> races() { return machine_ ? machine_->races() : std::vector<std::string>(); }
  device::sim::Faults& faults() { return machine_->faults(); }
  device::Stream& stream() { return *stream_; }
  const std::vector<experts::ExpertKey>& keys() const { return keys_; }
  const experts::ExpertLayout& layout() const { return model_.layout; }
  // What steps and swaps ask for the experts that are not in the cache.
  experts::ExpertSource& ram() { return copy ? static_cast<experts::ExpertSource&>(*copy) : *source; }
  uint64_t used_host_bytes() const { return machine_ ? machine_->host_bytes() : host_.used_bytes(); }
  experts::SwapSpec spec();

 private:
  void make_copy();
  Status read_slots(std::optional<std::string>& difference);
  void read_ram(std::optional<std::string>& difference);

  MixedModel model_;
  device::host::HostDevice host_;
  std::unique_ptr<device::sim::SimMachine> machine_;
  device::Device* device_;
  Beside beside_;
  std::vector<experts::ExpertKey> keys_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::HostBuffer> read_back_;  // [experts][largest blob]

 public:
  Stats stats;
  std::unique_ptr<ExchangeSource> everything;  // what the cache is filled from
  std::unique_ptr<ExchangeSource> source;
  std::unique_ptr<experts::ResidentSource> copy;  // of kRealCopy; null else
  std::unique_ptr<experts::ExpertCache> cache;
  std::unique_ptr<experts::ExpertSwaps> swaps;
};

// What SwapRig::step() says when everything is right.
inline const std::optional<std::string> kRight;

const char* name_of(Beside beside);
// A step, then an advance, until the swaps are idle; fails the test for a step that is not right. How many advances
// failed.
int run_to_the_end(SwapRig& rig);
// Fails the test unless all moves are done, or none is.
void expect_done(SwapRig& rig, const std::vector<experts::Move>& moves, bool done);

}  // namespace strata::test
