#include "model/blocks/moe.h"

#include "base/format.h"

namespace strata::model {

Result<MoeBlock> MoeBlock::load(const NetworkSpec& spec, const std::string& prefix, const MoeOptions& options) {
  const HParams& hp = spec.hp;
  WeightLoader& loader = spec.loader;
  MoeBlock block;
  block.formula_ = options.formula;
  if (options.norm != nullptr) {
    ASSIGN_OR_RETURN(block.norm_, loader.vector(prefix + options.norm, hp.dim));
  }
  ASSIGN_OR_RETURN(block.router_, loader.matrix(prefix + "ffn_gate_inp.weight", hp.dim, hp.route.n_experts));
  const std::string router_bias = prefix + "ffn_gate_inp.bias";
  ASSIGN_OR_RETURN(block.router_bias_, options.biases ? loader.vector(router_bias, hp.route.n_experts)
                                                      : loader.optional_vector(router_bias, hp.route.n_experts));
  if (options.biases) {
    for (const char* part : {"ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"}) {
      if (!loader.has(prefix + part)) {
        return Error{ErrorCode::kBadInput, format("{}: tensor {}{} is missing", loader.model().path(), prefix, part)};
      }
    }
  }
  ASSIGN_OR_RETURN(block.selection_bias_, loader.optional_vector(prefix + "exp_probs_b.bias", hp.route.n_experts));
  if (hp.shared_ffn > 0) {
    ASSIGN_OR_RETURN(block.shared_gate_, loader.matrix(prefix + "ffn_gate_shexp.weight", hp.dim, hp.shared_ffn));
    ASSIGN_OR_RETURN(block.shared_up_, loader.matrix(prefix + "ffn_up_shexp.weight", hp.dim, hp.shared_ffn));
    ASSIGN_OR_RETURN(block.shared_down_, loader.matrix(prefix + "ffn_down_shexp.weight", hp.shared_ffn, hp.dim));
    if (options.shared_gate) {
      ASSIGN_OR_RETURN(block.shared_weight_, loader.matrix(prefix + "ffn_gate_inp_shexp.weight", hp.dim, 1));
    }
  }
  return block;
}

void MoeBlock::declare(const HParams& hp, Activations& act) const {
  act.need(Act::kRouterLogits, hp.route.n_experts);
  act.need(Act::kExpertWeights, hp.route.n_used);
  act.need(Act::kExpertIds, hp.route.n_used);
  act.need(Act::kAheadWeights, hp.route.n_used);
  act.need(Act::kAheadIds, hp.route.n_used);
  if (hp.shared_ffn == 0) return;
  act.need(Act::kGate, hp.shared_ffn);
  act.need(Act::kUp, hp.shared_ffn);
  act.need(Act::kShared, hp.dim);
  act.need(Act::kSharedGate, 1);
}

void MoeBlock::enqueue_router(const StepContext& ctx, const device::View<int32_t>& ids,
                              const device::View<float>& weights, Norm norm) const {
  device::Router router{.w = router_,
                        .x = ctx.normed(),
                        .bias = router_bias_,
                        .selection_bias = selection_bias_,
                        .live = ctx.in.live(),
                        .ids = ids,
                        .weights = weights,
                        .logits = ctx.view(Act::kRouterLogits, ctx.hp.route.n_experts),
                        .params = ctx.hp.route};
  if (norm == Norm::kFirst) {
    router.x = ctx.hidden();
    router.gain = norm_;
    router.normed = ctx.normed();
    router.eps = ctx.hp.eps;
  }
  ctx.stream.enqueue(router);
}

void MoeBlock::enqueue(const StepContext& ctx, int layer, const MoeBlock* next) const {
  const HParams& hp = ctx.hp;
  const device::In<int32_t> live = ctx.in.live();
  device::View<int32_t> ids = ctx.dispatch.own_ids(layer, ctx.rows);
  if (ids.empty()) ids = ctx.act.ints(Act::kExpertIds, ctx.rows, hp.route.n_used);
  const device::View<float> weights = ctx.view(Act::kExpertWeights, hp.route.n_used);
  enqueue_router(ctx, ids, weights, norm_.empty() ? Norm::kDone : Norm::kFirst);
  if (ctx.look_ahead) {
    ctx.dispatch.hint(ctx.stream, layer, experts::HintKind::kCertain, ids, live);
    if (next != nullptr) {
      const device::View<int32_t> ahead = ctx.act.ints(Act::kAheadIds, ctx.rows, hp.route.n_used);
      next->enqueue_router(ctx, ahead, ctx.view(Act::kAheadWeights, hp.route.n_used), Norm::kDone);
      ctx.dispatch.hint(ctx.stream, layer + 1, experts::HintKind::kGuess, ahead, live);
    }
  }
  experts::ExpertFormula formula = formula_;
  formula.round_activations = ctx.numeric.round_activations;
  const auto route_ahead = [&](const device::Out<int32_t>& guess) {
    next->enqueue_router(ctx, guess, ctx.view(Act::kAheadWeights, hp.route.n_used), Norm::kDone);
  };
  const experts::NextLayer behind{layer + 1, route_ahead};
  ctx.dispatch.run(ctx.stream, layer, ids, weights, ctx.normed(), ctx.sum(), live, formula,
                   next == nullptr ? nullptr : &behind);
  if (hp.shared_ffn == 0) return;

  const device::View<float> gate = ctx.view(Act::kGate, hp.shared_ffn);
  const device::View<float> up = ctx.view(Act::kUp, hp.shared_ffn);
  const device::View<float> out = ctx.view(Act::kShared, hp.dim);
  ctx.stream.enqueue(device::MatMul{.w = shared_gate_, .x = ctx.normed(), .bias = {}, .live = live, .y = gate});
  ctx.stream.enqueue(device::MatMul{.w = shared_up_, .x = ctx.normed(), .bias = {}, .live = live, .y = up});
  ctx.stream.enqueue(device::SiluMul{.gate = gate, .up = up, .live = live});
  ctx.stream.enqueue(device::MatMul{.w = shared_down_, .x = gate, .bias = {}, .live = live, .y = out});
  device::View<float> amount;
  if (!shared_weight_.empty()) {
    amount = ctx.view(Act::kSharedGate, 1);
    ctx.stream.enqueue(device::MatMul{.w = shared_weight_, .x = ctx.normed(), .bias = {}, .live = live, .y = amount});
  }
  ctx.stream.enqueue(device::AddGated{.y = out, .gate = amount, .live = live, .x = ctx.sum()});
}

}  // namespace strata::model
