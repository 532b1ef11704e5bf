// qwen3next: Qwen3-Next-80B-A3B. Three delta-net layers for each layer of gated attention, softmax routing renormalised
// over the chosen experts, and a gated shared expert.
#include "model/arch/arch.h"
#include "model/arch/hybrid.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen3next"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  RETURN_IF_ERROR(read_hybrid(keys, false, hp));
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) { return build_hybrid(spec, {.grouped_gates = true}); }

}  // namespace

const ArchInfo kQwen3Next{"qwen3next", read, build};

}  // namespace strata::model
