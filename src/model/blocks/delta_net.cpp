#include "model/blocks/delta_net.h"

namespace strata::model {
namespace {

// Rows of the legacy ssm_in matrix, which stand per key head as q, k, v of its value heads, z of its value heads, in
// the order q | k | v of all heads, and those of z.
struct LegacyOrder {
  std::vector<int64_t> qkv, z;
};
LegacyOrder legacy_order(const device::DeltaShape& s) {
  const int64_t rep = s.n_value_heads / s.n_key_heads;
  const int64_t v_rows = rep * s.value_dim;
  const int64_t group = 2 * int64_t{s.key_dim} + 2 * v_rows;
  LegacyOrder order;
  const auto take = [&](std::vector<int64_t>& to, int64_t offset, int64_t count) {
    for (int g = 0; g < s.n_key_heads; g++) {
      for (int64_t i = 0; i < count; i++) to.push_back(g * group + offset + i);
    }
  };
  take(order.qkv, 0, s.key_dim);
  take(order.qkv, s.key_dim, s.key_dim);
  take(order.qkv, 2 * int64_t{s.key_dim}, v_rows);
  take(order.z, 2 * int64_t{s.key_dim} + v_rows, v_rows);
  return order;
}

}  // namespace

Status DeltaNetBlock::load_inputs(const NetworkSpec& spec, const std::string& prefix) {
  const HParams& hp = spec.hp;
  const device::DeltaShape& s = hp.delta;
  WeightLoader& loader = spec.loader;
  const int64_t width = int64_t{s.n_value_heads} * s.value_dim;
  const std::string legacy = prefix + "ssm_in.weight";
  if (options_.grouped_gates && loader.has(legacy)) {
    const LegacyOrder order = legacy_order(s);
    const int64_t rows = s.channels() + width;
    ASSIGN_OR_RETURN(inputs_[0], loader.matrix_rows(legacy, hp.dim, rows, order.qkv));
    ASSIGN_OR_RETURN(inputs_[1], loader.matrix_rows(legacy, hp.dim, rows, order.z));
  } else {
    ASSIGN_OR_RETURN(inputs_[0], loader.matrix(prefix + "attn_qkv.weight", hp.dim, s.channels()));
    ASSIGN_OR_RETURN(inputs_[1], loader.matrix(prefix + "attn_gate.weight", hp.dim, width));
  }
  if (options_.grouped_gates) {
    ASSIGN_OR_RETURN(inputs_[2], loader.matrix(prefix + "ssm_ba.weight", hp.dim, 2 * int64_t{s.n_value_heads}));
  } else {
    ASSIGN_OR_RETURN(inputs_[2], loader.matrix(prefix + "ssm_beta.weight", hp.dim, s.n_value_heads));
    ASSIGN_OR_RETURN(inputs_[3], loader.matrix(prefix + "ssm_alpha.weight", hp.dim, s.n_value_heads));
  }
  return {};
}

Result<DeltaNetBlock> DeltaNetBlock::load(const NetworkSpec& spec, const std::string& prefix,
                                          const DeltaNetOptions& options) {
  const device::DeltaShape& s = spec.hp.delta;
  WeightLoader& loader = spec.loader;
  DeltaNetBlock block;
  block.options_ = options;
  if (options.norm) {
    ASSIGN_OR_RETURN(block.input_norm_, loader.vector(prefix + "attn_norm.weight", spec.hp.dim));
  }
  RETURN_IF_ERROR(block.load_inputs(spec, prefix));
  ASSIGN_OR_RETURN(block.taps_, loader.float_rows(prefix + "ssm_conv1d.weight", s.kernel, s.channels()));
  ASSIGN_OR_RETURN(block.dt_bias_, loader.vector(prefix + "ssm_dt.bias", s.n_value_heads));
  ASSIGN_OR_RETURN(block.decay_, loader.vector(prefix + "ssm_a", s.n_value_heads));
  ASSIGN_OR_RETURN(block.norm_, loader.vector(prefix + "ssm_norm.weight", s.value_dim));
  ASSIGN_OR_RETURN(block.output_,
                   loader.matrix(prefix + "ssm_out.weight", int64_t{s.n_value_heads} * s.value_dim, spec.hp.dim));
  block.output_.round_finely();
  return block;
}

void DeltaNetBlock::declare(const HParams& hp, Activations& act) const {
  const int64_t heads = hp.delta.n_value_heads;
  act.need(Act::kProjected, hp.delta.channels() + heads * hp.delta.value_dim + 2 * heads);
  act.need(Act::kMixed, hp.delta.channels());
  act.need(Act::kMixedOut, heads * hp.delta.value_dim);
  act.need(Act::kDecay, 2 * heads);
}

void DeltaNetBlock::enqueue(const StepContext& ctx, int layer) const {
  const HParams& hp = ctx.hp;
  const device::DeltaShape& s = hp.delta;
  const int64_t heads = s.n_value_heads, width = heads * s.value_dim;
  const device::In<int32_t> live = ctx.in.live();
  const device::SegmentMap segments = ctx.in.segments();
  const device::View<float> projected = ctx.view(Act::kProjected, s.channels() + width + 2 * heads);
  const device::View<float> raw = projected.columns(0, s.channels());
  const device::View<float> z = projected.columns(s.channels(), width);
  const device::View<float> ba = projected.columns(s.channels() + width, 2 * heads);
  const device::View<float> qkv = ctx.view(Act::kMixed, s.channels());
  const device::View<float> out = ctx.view(Act::kMixedOut, width);
  const device::View<float> g_beta = ctx.view(Act::kDecay, 2 * heads);
  device::Project project = ctx.project(input_norm_, projected);
  for (size_t i = 0; i < inputs_.size(); i++) project.parts[i].w = inputs_[i];
  ctx.stream.enqueue(project);
  ctx.stream.enqueue(device::DeltaConv{.x = raw,
                                       .taps = taps_,
                                       .conv_state = ctx.state.fixed(layer, FixedState::kConv),
                                       .segments = segments,
                                       .y = qkv,
                                       .shape = s,
                                       .eps = hp.eps});
  ctx.stream.enqueue(device::DeltaGates{.ba = ba,
                                        .dt_bias = dt_bias_,
                                        .decay = decay_,
                                        .live = live,
                                        .g_beta = g_beta,
                                        .n_key_heads = s.n_key_heads,
                                        .grouped = options_.grouped_gates});
  ctx.stream.enqueue(device::DeltaNet{.qkv = qkv,
                                      .g_beta = g_beta,
                                      .state = ctx.state.fixed(layer, FixedState::kDelta),
                                      .segments = segments,
                                      .y = out,
                                      .shape = s,
                                      .chunk_min_rows = ctx.numeric.deterministic ? 0 : kDeltaChunkMinRows});
  ctx.stream.enqueue(device::GatedNorm{
      .x = out, .z = z, .gain = norm_, .live = live, .sigmoid_gate = options_.sigmoid_gate, .eps = hp.eps});
  ctx.stream.enqueue(
      device::MatMul{.w = output_, .x = out, .bias = {}, .live = live, .y = ctx.sum(), .accumulate = true});
}

}  // namespace strata::model
