// The two ends of a model: token embedding and step tables; final norm, or mixture of several residual streams, and
// output matrix.
#pragma once

#include <optional>

#include "model/blocks/hyper_connection.h"
#include "model/network.h"

namespace strata::model {

// Frequencies of the rope, with what the file's scaling and tables of factors do to them, and its magnitude.
struct RopeTable {
  device::In<float> inv_freq;  // [1][n_rot / 2]
  float magnitude = 1;
};
Result<RopeTable> load_rope_table(const NetworkSpec& spec);

class EndsBlock {
 public:
  // The embedding for a part that begins with layer 0; output_norm (output_hc where there are several streams) and
  // output (or the tied embedding, unless `output_required`) for one that ends with the last layer; the rope table for
  // all.
  static Result<EndsBlock> load(const NetworkSpec& spec, bool output_required);
  void declare(const HParams& hp, Activations& act) const;
  void enqueue_start(const StepContext& ctx, bool embed) const;
  void enqueue_head(const StepContext& ctx, int64_t outputs) const;

 private:
  device::Weight embedding_, output_;
  device::In<float> output_norm_;
  std::optional<HyperConnection> output_mix_;  // instead of the norm
  RopeTable rope_;
};

}  // namespace strata::model
