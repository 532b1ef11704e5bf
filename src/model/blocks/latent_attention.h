// Multi-head latent attention in absorbed form: norm, projections, the matrices of the heads, the latent cache, output
// matrix.
#pragma once

#include <string>

#include "model/network.h"

namespace strata::model {

class LatentAttentionBlock {
 public:
  // Loads blk.N.attn_norm, attn_q_a, attn_q_a_norm and attn_q_b (or, with q_rank 0, attn_q), attn_kv_a_mqa,
  // attn_kv_a_norm, attn_k_b and attn_v_b (or attn_kv_b, which holds both of each head), attn_output.
  static Result<LatentAttentionBlock> load(const NetworkSpec& spec, const std::string& prefix);
  void declare(const HParams& hp, Activations& act) const;
  // sum() += attention(norm(hidden)); normed is scratch.
  void enqueue(const StepContext& ctx, int layer) const;

 private:
  Status load_queries(const NetworkSpec& spec, const std::string& prefix);
  Status load_head_matrices(const NetworkSpec& spec, const std::string& prefix);

  device::Weight first_;    // of the queries: to their latent, or to the heads
  device::Weight second_;   // from the queries' latent to the heads; empty without one
  device::Weight latent_;   // to the latent and the rotated key
  device::Weight absorb_;   // of each head: queries into the space of the latent
  bool transposed_ = false;  // absorb_ stands the other way round
  device::Weight values_;   // of each head: from the latent
  device::Weight output_;
  device::In<float> norm_, q_norm_, latent_norm_;
};

}  // namespace strata::model
