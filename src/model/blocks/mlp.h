// The MLP of a dense layer: norm, gate and up, silu, down.
#pragma once

#include <string>

#include "model/network.h"

namespace strata::model {

class MlpBlock {
 public:
  // Loads the norm (`norm`: its name behind the prefix; null: the input is ctx.normed()), blk.N.ffn_gate, ffn_up and
  // ffn_down of width hp.dense_ffn, and their biases where the file has them.
  static Result<MlpBlock> load(const NetworkSpec& spec, const std::string& prefix, const char* norm);
  void declare(const HParams& hp, Activations& act) const;
  // sum() += down(silu(gate(n)) * up(n)) with n = norm(hidden), normed is scratch; or n = normed.
  void enqueue(const StepContext& ctx) const;

 private:
  device::In<float> norm_, down_bias_;
  device::Project::Part gate_, up_;
  device::Weight down_;
};

}  // namespace strata::model
