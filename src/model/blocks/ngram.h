// Hashed n-gram features: rows of a large table, looked up by the last few tokens, go through a key and a value matrix,
// a gate for each residual stream and a causal convolution with distant taps, and are added to all streams.
#pragma once

#include <string>

#include "model/network.h"

namespace strata::model {

class NgramBlock {
 public:
  // The tensors PREFIXple_*; the table itself is the part's (ngram/feed.h).
  static Result<NgramBlock> load(const NetworkSpec& spec, const std::string& prefix);
  void declare(const HParams& hp, Activations& act) const;
  // hidden += features, in the layer hp.ngram.layer and before all else of it. Works in kProjected and kMixed.
  void enqueue(const StepContext& ctx, int layer) const;

 private:
  device::Weight key_, value_;
  device::In<float> key_gain_, query_gain_, conv_gain_, taps_;
};

}  // namespace strata::model
