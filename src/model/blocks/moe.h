// The mixture of experts of a layer: norm, router, dispatch of the routed experts, optional shared expert.
#pragma once

#include <string>

#include "model/network.h"

namespace strata::model {

struct MoeOptions {
  const char* norm = "ffn_norm.weight";  // name of the norm in front; null: the input is ctx.normed()
  experts::ExpertFormula formula = {};
  bool biases = false;       // router and experts have biases; else those that the file has
  bool shared_gate = false;  // the shared expert has a gate; else all of it is added
};

class MoeBlock {
 public:
  // Loads the norm, blk.N.ffn_gate_inp, exp_probs_b where the file has it, and with hp.shared_ffn the shared expert.
  // The routed experts themselves belong to the dispatch's source.
  static Result<MoeBlock> load(const NetworkSpec& spec, const std::string& prefix, const MoeOptions& options);
  void declare(const HParams& hp, Activations& act) const;
  // sum() += experts(norm(hidden)), or sum() += experts(normed). `next`: the block of the layer after this one, null
  // for none; with ctx.look_ahead its router is given this layer's input, which predicts what it chooses well enough
  // to begin to read it: the first half of it, for of the second one much is read for nothing (mid-4g, skewed routing:
  // 1 of 77 reads, 1 of 6 with all).
  void enqueue(const StepContext& ctx, int layer, const MoeBlock* next) const;

 private:
  // Of ctx.normed(), or of what it makes of ctx.hidden() before.
  enum class Norm { kDone, kFirst };
  void enqueue_router(const StepContext& ctx, const device::View<int32_t>& ids, const device::View<float>& weights,
                      Norm norm) const;

  device::In<float> norm_;
  device::Weight router_;
  device::In<float> router_bias_, selection_bias_;
  device::Weight shared_gate_, shared_up_, shared_down_;
  device::Weight shared_weight_;  // [1][dim]: how much of the shared expert is added; empty for all of it
  experts::ExpertFormula formula_;
};

}  // namespace strata::model
