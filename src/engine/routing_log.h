// Parts of a model work on several steps at once, each on another thread. What they tell of their routing is kept here
// until a step is through all of them, and then told as one part alone would tell it: a step after the other, each from
// its first layer to its last.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "experts/routing.h"

namespace strata::engine {

struct RoutingLogSpec {
  int first = 0;  // layers of the part
  int last = 0;
  int n_steps = 0;  // under way at once
  int64_t max_rows = 0;
  int64_t n_used = 0;
};

// Of one part. begin() and tell() while it computes nothing.
class RoutingLog final : public experts::RoutingObserver {
 public:
  // kNoMemory when `host` has no room for bytes_needed().
  static Result<std::unique_ptr<RoutingLog>> create(device::Device& host, const RoutingLogSpec& spec);
  static uint64_t bytes_needed(const RoutingLogSpec& spec);

  // What the part tells from here on is about this step. Steps are numbered in their order, without gaps.
  void begin(uint64_t step);
  void routed(int32_t layer, const device::In<int32_t>& ids) override;
  // Tells what the part told about a step.
  void tell(uint64_t step, experts::RoutingObserver& observer) const;

 private:
  explicit RoutingLog(const RoutingLogSpec& spec) : spec_(spec) {}
  size_t n_layers() const { return static_cast<size_t>(spec_.last - spec_.first); }
  size_t index(uint64_t step, size_t layer) const {
    return static_cast<size_t>(step % static_cast<uint64_t>(spec_.n_steps)) * n_layers() + layer;
  }
  // Where the ids of a layer lie.
  device::View<int32_t> ids(size_t index, int64_t rows) const;

  RoutingLogSpec spec_;
  std::unique_ptr<device::HostBuffer> ids_;  // int32 [n_steps][layers][max_rows][n_used]
  std::vector<int64_t> rows_;                // [n_steps][layers] told of, -1: nothing was told
  uint64_t step_ = 0;
};

}  // namespace strata::engine
