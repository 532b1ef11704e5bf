// What stands around a block where the residual is several streams: the mixture of them that the block reads, and the
// amounts of its output that they take.
#pragma once

#include <string>

#include "model/network.h"

namespace strata::model {

class HyperConnection {
 public:
  // Loads PREFIX_norm, _down, _up and, unless it `only_mixes`, _inject.
  static Result<HyperConnection> load(const NetworkSpec& spec, const std::string& prefix, bool only_mixes);
  void declare(const HParams& hp, Activations& act) const;
  // normed() = mixture of hidden()
  void enqueue_mix(const StepContext& ctx) const;
  // hidden() += what sum() holds, which is zeros then. After enqueue_mix().
  void enqueue_add(const StepContext& ctx) const;
  // y = mixture of x: at most as many rows as a step has.
  void enqueue_mix(const StepContext& ctx, const device::View<float>& x, const device::In<int32_t>& live,
                   const device::View<float>& y) const;

 private:
  device::In<float> gain_;
  device::Weight down_, up_, inject_;
};

}  // namespace strata::model
