// The gated delta net: norm, projections, causal convolution, gates, delta rule, gated norm, output matrix.
#pragma once

#include <array>
#include <string>

#include "model/network.h"

namespace strata::model {

struct DeltaNetOptions {
  bool norm = true;  // attn_norm stands before it; else its input is ctx.normed()
  bool grouped_gates =
      false;  // one ssm_ba matrix grouped by key head (and the legacy ssm_in), else ssm_beta and ssm_alpha
  bool sigmoid_gate = false;  // the output gate is sigmoid(z), else silu(z)
};

// Prompts of at least this many rows use the chunk form.
inline constexpr int kDeltaChunkMinRows = 16;

class DeltaNetBlock {
 public:
  static Result<DeltaNetBlock> load(const NetworkSpec& spec, const std::string& prefix, const DeltaNetOptions& options);
  void declare(const HParams& hp, Activations& act) const;
  // sum() += delta_net(norm(hidden)), normed is scratch; or sum() += delta_net(normed).
  void enqueue(const StepContext& ctx, int layer) const;

 private:
  Status load_inputs(const NetworkSpec& spec, const std::string& prefix);
  std::array<device::Weight, device::Project::kMost> inputs_;  // q | k | v, z, then b and a in one matrix or two
  device::Weight output_;
  device::In<float> input_norm_, taps_, dt_bias_, decay_, norm_;
  DeltaNetOptions options_;
};

}  // namespace strata::model
