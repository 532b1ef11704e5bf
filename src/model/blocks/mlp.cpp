#include "model/blocks/mlp.h"

namespace strata::model {

Result<MlpBlock> MlpBlock::load(const NetworkSpec& spec, const std::string& prefix, const char* norm) {
  const HParams& hp = spec.hp;
  WeightLoader& loader = spec.loader;
  MlpBlock block;
  if (norm != nullptr) {
    ASSIGN_OR_RETURN(block.norm_, loader.vector(prefix + norm, hp.dim));
  }
  ASSIGN_OR_RETURN(block.gate_.w, loader.matrix(prefix + "ffn_gate.weight", hp.dim, hp.dense_ffn));
  ASSIGN_OR_RETURN(block.gate_.bias, loader.optional_vector(prefix + "ffn_gate.bias", hp.dense_ffn));
  ASSIGN_OR_RETURN(block.up_.w, loader.matrix(prefix + "ffn_up.weight", hp.dim, hp.dense_ffn));
  ASSIGN_OR_RETURN(block.up_.bias, loader.optional_vector(prefix + "ffn_up.bias", hp.dense_ffn));
  ASSIGN_OR_RETURN(block.down_, loader.matrix(prefix + "ffn_down.weight", hp.dense_ffn, hp.dim));
  ASSIGN_OR_RETURN(block.down_bias_, loader.optional_vector(prefix + "ffn_down.bias", hp.dim));
  return block;
}

void MlpBlock::declare(const HParams& hp, Activations& act) const { act.need(Act::kGate, 2 * hp.dense_ffn); }

void MlpBlock::enqueue(const StepContext& ctx) const {
  const HParams& hp = ctx.hp;
  const device::In<int32_t> live = ctx.in.live();
  const device::View<float> both = ctx.view(Act::kGate, 2 * hp.dense_ffn);
  const device::View<float> gate = both.columns(0, hp.dense_ffn), up = both.columns(hp.dense_ffn, hp.dense_ffn);
  device::Project project = ctx.project(norm_, both);
  project.parts[0] = gate_;
  project.parts[1] = up_;
  ctx.stream.enqueue(project);
  ctx.stream.enqueue(device::SiluMul{.gate = gate, .up = up, .live = live});
  ctx.stream.enqueue(device::MatMul{
      .w = down_, .x = gate, .bias = down_bias_, .live = live, .y = ctx.sum(), .accumulate = true});
}

}  // namespace strata::model
