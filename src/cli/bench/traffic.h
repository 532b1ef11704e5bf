// How many bytes the steps of a model have to read: what memory has to deliver, whatever computes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "experts/expert.h"
#include "gguf/gguf.h"
#include "model/hparams.h"

namespace strata::cli {

// Rows of one sequence that are computed together.
struct StepRows {
  int64_t first;   // tokens that came before
  int64_t n;       // rows
  double experts;  // distinct ones that a layer computes, in the mean of the layers that have some
  bool head;       // whether logits of a row are computed
};

// Counts every byte once a step, as it stands in the file: dense weights, experts, the head, one row of the embedding a
// token; keys and values that some row sees, in the cache's type; keys of the index of sparse attention; what layers
// keep of a sequence in fixed room. Activations and what is written are left out.
class Traffic {
 public:
  static Result<Traffic> of(const gguf::Model& model, const model::HParams& hp, kernels::KvType kv_type);

  uint64_t step_bytes(const StepRows& rows) const;
  // Of a token computed alone, with its logits: dense weights, k of n experts, head, context.
  uint64_t token_bytes(int64_t position) const {
    return step_bytes({.first = position, .n = 1, .experts = static_cast<double>(experts_used_), .head = true});
  }

 private:
  void add_experts(const experts::ExpertLayout& layout);
  void add_tensors(const gguf::Model& model, const experts::ExpertLayout& layout, int n_layers);
  void add_context(const model::HParams& hp, kernels::KvType kv_type);
  uint64_t context_bytes(const StepRows& rows) const;

  int experts_used_ = 0;
  uint64_t dense_bytes_ = 0;          // of all layers, and the last norm
  uint64_t expert_bytes_ = 0;         // of one expert in each layer, summed up
  uint64_t head_bytes_ = 0;
  uint64_t embedding_row_bytes_ = 0;
  uint64_t kv_token_bytes_ = 0;       // of one token in one attention layer
  uint64_t fixed_state_bytes_ = 0;    // of all layers
  std::vector<int64_t> windows_;      // of the attention layers; 0 for full attention
  // Of those that choose blocks of tokens by an index.
  struct Sparse {
    int64_t block;        // tokens
    uint64_t key_bytes;   // of a block
    int64_t most_tokens;  // that a row sees
  };
  std::vector<Sparse> sparse_;
};

}  // namespace strata::cli
