// The two ends of a model with one residual stream: token embedding and step tables; final norm and output matrix.
#pragma once

#include "model/network.h"

namespace strata::model {

class EndsBlock {
 public:
  // The embedding for a part that begins with layer 0; output_norm and output (or the tied embedding, unless
  // `output_required`) for one that ends with the last layer; the rope table for all.
  static Result<EndsBlock> load(const NetworkSpec& spec, bool output_required);
  void declare(const HParams& hp, Activations& act) const;
  void enqueue_start(const StepContext& ctx, bool embed) const;
  void enqueue_head(const StepContext& ctx, int64_t outputs) const;

 private:
  device::Weight embedding_, output_;
  device::In<float> output_norm_, inv_freq_;
  float rope_magnitude_ = 1;
};

}  // namespace strata::model
