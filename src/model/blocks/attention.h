// Grouped-query attention: norm, projections, per-head norms, rope, paged cache, sinks, output gate, output matrix.
#pragma once

#include <string>
#include <vector>

#include "model/network.h"

namespace strata::model {

struct AttentionOptions {
  bool norm = true;       // attn_norm stands before it; else its input is ctx.normed()
  bool gated = false;     // each head's query rows are followed by its gate rows
  bool q_k_norm = false;  // attn_q_norm and attn_k_norm are required; else a layer has them if the file does
  bool norm_of_all_heads = false;  // they are for the values of all heads at once, else for those of each head
  bool sinks = false;              // attn_sinks is required
  bool input_biases = false;       // the projections to q, k and v have biases; else those that the file has
  bool biases = false;             // every projection has one
};

class AttentionBlock {
 public:
  // Loads blk.N.attn_norm, attn_q, attn_k, attn_v (or the fused attn_qkv), attn_output, and biases where the file has
  // them.
  static Result<AttentionBlock> load(const NetworkSpec& spec, const std::string& prefix,
                                     const AttentionOptions& options);
  void declare(const HParams& hp, Activations& act) const;
  // sum() += attention(norm(hidden)), normed is scratch; or sum() += attention(normed).
  void enqueue(const StepContext& ctx, int layer) const;
  // Its three steps, for those that attend in another way: queries, keys and values; what is computed with them; the
  // product of its outputs with the output matrix, to sum().
  void enqueue_project(const StepContext& ctx) const;
  device::AppendAttend append_attend(const StepContext& ctx, int layer) const;
  void enqueue_output(const StepContext& ctx) const;

 private:
  device::View<float> projected(const StepContext& ctx) const;
  device::View<float> mixed(const StepContext& ctx) const;
  void enqueue_norms(const StepContext& ctx) const;

  std::vector<device::Project::Part> projections_;  // to q | k | v
  device::Weight output_;
  device::In<float> norm_, output_bias_, q_norm_, k_norm_, sinks_;
  AttentionOptions options_;
};

}  // namespace strata::model
