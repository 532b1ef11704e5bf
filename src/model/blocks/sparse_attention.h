// Attention to the few blocks of tokens that an index chooses for each row: the gated attention of blocks/attention.h
// behind an indexer with query heads and one key head of its own.
#pragma once

#include <string>

#include "model/blocks/attention.h"
#include "model/blocks/ends.h"

namespace strata::model {

class SparseAttentionBlock {
 public:
  // Loads what AttentionBlock does with these options, and PREFIXindexer.q_proj, k_proj, q_norm and k_norm. The
  // layer has an index.
  static Result<SparseAttentionBlock> load(const NetworkSpec& spec, const std::string& prefix,
                                           const AttentionOptions& options);
  void declare(const HParams& hp, Activations& act) const;
  // As AttentionBlock's. With a norm in front, its input is not left in normed(), which the indexer reads: options.norm
  // has to be false.
  void enqueue(const StepContext& ctx, int layer) const;

 private:
  void enqueue_choice(const StepContext& ctx, int layer, const device::View<int32_t>& chosen) const;

  AttentionBlock attention_;
  device::Weight index_q_, index_k_;
  device::In<float> q_norm_, k_norm_;
  RopeTable rope_;
};

}  // namespace strata::model
