// qwen3: the dense models of the family, qwen3moe with an MLP in place of the experts.
#include "model/arch/layered.h"
#include "model/blocks/attention.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  return read_common(keys, "qwen3", {.experts = CommonKeys::Experts::kNone});
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) {
  return build_layered<AttentionBlock>(spec, {.output_required = false,
                                              .moe = {},
                                              .load_mixer = [](const NetworkSpec& s, const std::string& prefix, int) {
                                                return AttentionBlock::load(s, prefix, {.q_k_norm = true});
                                              }});
}

}  // namespace

const ArchInfo kQwen3{"qwen3", read, build};

}  // namespace strata::model
