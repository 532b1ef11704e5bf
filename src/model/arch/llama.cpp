// llama: Mixtral, and Llama itself, whose layers are dense. Grouped-query attention with rope on pairs of neighbours;
// where there are experts, softmax routing renormalised over the chosen ones.
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "llama", {.experts = CommonKeys::Experts::kOptional,
                                                           .experts_as_wide_as_dense = true}));
  hp.rope_interleaved = true;
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_attention_layers(spec, {}, {});
}

}  // namespace

const ArchInfo kLlama{"llama", read, build};

}  // namespace strata::model
