#include "model/blocks/attention.h"

namespace strata::model {

Result<AttentionBlock> AttentionBlock::load(const NetworkSpec& spec, const std::string& prefix,
                                            const AttentionOptions& options) {
  const HParams& hp = spec.hp;
  WeightLoader& loader = spec.loader;
  AttentionBlock block;
  ASSERT(!options.norm_of_all_heads || (options.q_k_norm && !options.gated));
  block.options_ = options;
  const int64_t nq = hp.q_width(options.gated);
  const int64_t nk = hp.k_width();
  const int64_t nv = hp.v_width();
  const auto vector = [&](const std::string& name, int64_t width, bool required) {
    return required ? loader.vector(prefix + name, width) : loader.optional_vector(prefix + name, width);
  };
  const auto project = [&](const std::string& name, int64_t width) -> Status {
    device::Project::Part p;
    ASSIGN_OR_RETURN(p.w, loader.matrix(prefix + name + ".weight", hp.dim, width));
    ASSIGN_OR_RETURN(p.bias, vector(name + ".bias", width, options.biases || options.input_biases));
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
  ASSIGN_OR_RETURN(block.output_bias_, vector("attn_output.bias", hp.dim, options.biases));
  ASSIGN_OR_RETURN(block.q_norm_, vector("attn_q_norm.weight", options.norm_of_all_heads ? nq : hp.key_dim,
                                         options.q_k_norm));
  ASSIGN_OR_RETURN(block.k_norm_, vector("attn_k_norm.weight", options.norm_of_all_heads ? nk : hp.key_dim,
                                         options.q_k_norm));
  if (options.sinks) {
    ASSIGN_OR_RETURN(block.sinks_, loader.vector(prefix + "attn_sinks.weight", hp.n_heads));
  }
  return block;
}

void AttentionBlock::declare(const HParams& hp, Activations& act) const {
  act.need(Act::kProjected, hp.q_width(options_.gated) + hp.k_width() + hp.v_width());
  act.need(Act::kMixed, int64_t{hp.n_heads} * hp.value_dim);
  if (options_.norm_of_all_heads) act.need(Act::kMixedOut, hp.q_width(false) + hp.k_width());
}

// Of q | k, into other memory.
void AttentionBlock::enqueue_norms(const StepContext& ctx) const {
  const int64_t nq = ctx.hp.q_width(false);
  const int64_t nk = ctx.hp.k_width();
  const device::View<float> qk = projected(ctx);
  const device::View<float> normed = ctx.view(Act::kMixedOut, nq + nk);
  const device::In<int32_t> live = ctx.in.live();
  ctx.stream.enqueue(device::RmsNorm{
      .x = qk.columns(0, nq), .gain = q_norm_, .live = live, .y = normed.columns(0, nq), .eps = ctx.hp.eps});
  ctx.stream.enqueue(device::RmsNorm{
      .x = qk.columns(nq, nk), .gain = k_norm_, .live = live, .y = normed.columns(nq, nk), .eps = ctx.hp.eps});
}

device::View<float> AttentionBlock::projected(const StepContext& ctx) const {
  const HParams& hp = ctx.hp;
  return ctx.view(Act::kProjected, hp.q_width(options_.gated) + hp.k_width() + hp.v_width());
}
device::View<float> AttentionBlock::mixed(const StepContext& ctx) const {
  return ctx.view(Act::kMixed, int64_t{ctx.hp.n_heads} * ctx.hp.value_dim);
}

void AttentionBlock::enqueue(const StepContext& ctx, int layer) const {
  enqueue_project(ctx);
  ctx.stream.enqueue(append_attend(ctx, layer));
  enqueue_output(ctx);
}

void AttentionBlock::enqueue_project(const StepContext& ctx) const {
  device::Project project = ctx.project(norm_, projected(ctx));
  for (size_t i = 0; i < projections_.size(); i++) project.parts[i] = projections_[i];
  ctx.stream.enqueue(project);
  if (options_.norm_of_all_heads) enqueue_norms(ctx);
}

device::AppendAttend AttentionBlock::append_attend(const StepContext& ctx, int layer) const {
  const HParams& hp = ctx.hp;
  const int64_t nq = hp.q_width(options_.gated);
  const int64_t nk = hp.k_width();
  const device::View<float> qkv = projected(ctx);
  const bool per_head = !options_.norm_of_all_heads;
  const device::View<float> qk = per_head ? qkv : ctx.view(Act::kMixedOut, nq + nk);
  return device::AppendAttend{
      .append = {.q = qk.columns(0, nq),
                 .k = qk.columns(nq, nk),
                 .v = qkv.columns(nq + nk, hp.v_width()),
                 .q_norm = per_head ? q_norm_ : device::In<float>{},
                 .k_norm = per_head ? k_norm_ : device::In<float>{},
                 .cos_sin = ctx.cos_sin(),
                 .rows = ctx.in.row_map(ctx.rows),
                 .kv = ctx.state.kv(layer),
                 .n_heads = hp.n_heads,
                 .q_head_stride = hp.key_dim * (options_.gated ? 2 : 1),
                 .interleaved = hp.rope_interleaved,
                 .eps = hp.eps},
      .sinks = sinks_,
      .arrivals = ctx.act.ints(Act::kArrivals, ctx.rows, hp.n_heads),
      .y = mixed(ctx),
      .gated = options_.gated,
      .window = hp.windows[static_cast<size_t>(layer)],
      .scale = hp.attn_scale};
}

void AttentionBlock::enqueue_output(const StepContext& ctx) const {
  ctx.stream.enqueue(device::MatMul{.w = output_,
                                    .x = mixed(ctx),
                                    .bias = output_bias_,
                                    .live = ctx.in.live(),
                                    .y = ctx.sum(),
                                    .accumulate = true});
}

}  // namespace strata::model
