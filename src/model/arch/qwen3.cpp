// qwen3: the dense models of the family, qwen3moe with an MLP in place of the experts.
#include "model/arch/layered.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  return read_common(keys, "qwen3", {.experts = CommonKeys::Experts::kNone});
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_attention_layers(spec, {}, {.q_k_norm = true});
}

}  // namespace

const ArchInfo kQwen3{"qwen3", read, build};

}  // namespace strata::model
