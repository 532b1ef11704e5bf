#include "model/blocks/attention.h"

#include <cmath>

namespace strata::model {

Result<AttentionBlock> AttentionBlock::load(const NetworkSpec& spec, const std::string& prefix,
                                            const AttentionOptions& options) {
  const HParams& hp = spec.hp;
  WeightLoader& loader = spec.loader;
  AttentionBlock block;
  block.options_ = options;
  const int64_t nq = hp.q_width(options.gated);
  const int64_t nk = hp.k_width();
  const int64_t nv = hp.v_width();
  const auto bias = [&](const std::string& name, int64_t width) {
    return options.biases ? loader.vector(prefix + name + ".bias", width)
                          : loader.optional_vector(prefix + name + ".bias", width);
  };
  const auto project = [&](const std::string& name, int64_t width) -> Status {
    device::Project::Part p;
    ASSIGN_OR_RETURN(p.w, loader.matrix(prefix + name + ".weight", hp.dim, width));
    ASSIGN_OR_RETURN(p.bias, bias(name, width));
    block.projections_.push_back(p);
    return {};
  };
  if (options.norm) {
    ASSIGN_OR_RETURN(block.norm_, loader.vector(prefix + "attn_norm.weight", hp.dim));
  }
  if (loader.has(prefix + "attn_qkv.weight")) {
    RETURN_IF_ERROR(project("attn_qkv", nq + nk + nv));
  } else {
    RETURN_IF_ERROR(project("attn_q", nq));
    RETURN_IF_ERROR(project("attn_k", nk));
    RETURN_IF_ERROR(project("attn_v", nv));
  }
  ASSIGN_OR_RETURN(block.output_,
                   loader.matrix(prefix + "attn_output.weight", int64_t{hp.n_heads} * hp.value_dim, hp.dim));
  block.output_.round_finely();
  ASSIGN_OR_RETURN(block.output_bias_, bias("attn_output", hp.dim));
  if (options.q_k_norm) {
    ASSIGN_OR_RETURN(block.q_norm_, loader.vector(prefix + "attn_q_norm.weight", hp.key_dim));
    ASSIGN_OR_RETURN(block.k_norm_, loader.vector(prefix + "attn_k_norm.weight", hp.key_dim));
  }
  if (options.sinks) {
    ASSIGN_OR_RETURN(block.sinks_, loader.vector(prefix + "attn_sinks.weight", hp.n_heads));
  }
  return block;
}

void AttentionBlock::declare(const HParams& hp, Activations& act) const {
  act.need(Act::kProjected, hp.q_width(options_.gated) + hp.k_width() + hp.v_width());
  act.need(Act::kMixed, int64_t{hp.n_heads} * hp.value_dim);
}

void AttentionBlock::enqueue(const StepContext& ctx, int layer) const {
  const HParams& hp = ctx.hp;
  const int64_t nq = hp.q_width(options_.gated);
  const int64_t nk = hp.k_width();
  const device::View<float> qkv = ctx.view(Act::kProjected, nq + nk + hp.v_width());
  const device::View<float> mixed = ctx.view(Act::kMixed, int64_t{hp.n_heads} * hp.value_dim);
  const device::RowMap rows = ctx.in.row_map(ctx.rows);
  const int q_head_stride = hp.key_dim * (options_.gated ? 2 : 1);
  device::Project project = ctx.project(norm_, qkv);
  for (size_t i = 0; i < projections_.size(); i++) project.parts[i] = projections_[i];
  ctx.stream.enqueue(project);
  ctx.stream.enqueue(
      device::AppendAttend{.append = {.q = qkv.columns(0, nq),
                                      .k = qkv.columns(nq, nk),
                                      .v = qkv.columns(nq + nk, hp.v_width()),
                                      .q_norm = q_norm_,
                                      .k_norm = k_norm_,
                                      .cos_sin = ctx.cos_sin(),
                                      .rows = rows,
                                      .kv = ctx.state.kv(layer),
                                      .n_heads = hp.n_heads,
                                      .q_head_stride = q_head_stride,
                                      .interleaved = hp.rope_interleaved,
                                      .eps = hp.eps},
                           .sinks = sinks_,
                           .arrivals = ctx.act.ints(Act::kArrivals, ctx.rows, hp.n_heads),
                           .y = mixed,
                           .gated = options_.gated,
                           .window = hp.windows[static_cast<size_t>(layer)],
                           .scale = 1.0f / std::sqrt(static_cast<float>(hp.key_dim))});
  ctx.stream.enqueue(device::MatMul{
      .w = output_, .x = mixed, .bias = output_bias_, .live = ctx.in.live(), .y = ctx.sum(), .accumulate = true});
}

}  // namespace strata::model
