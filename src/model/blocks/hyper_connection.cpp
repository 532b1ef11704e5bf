#include "model/blocks/hyper_connection.h"

namespace strata::model {
namespace {

// The gains of all streams, which files keep as one vector or as a row a stream.
Result<device::In<float>> load_gains(WeightLoader& loader, const std::string& name, const HParams& hp) {
  const gguf::TensorInfo* tensor = loader.model().find_tensor(name);
  if (tensor != nullptr && tensor->ne[1] != 1) return loader.float_rows(name, hp.dim, hp.n_streams);
  return loader.vector(name, hp.hidden_width());
}

}  // namespace

Result<HyperConnection> HyperConnection::load(const NetworkSpec& spec, const std::string& prefix, bool only_mixes) {
  const HParams& hp = spec.hp;
  WeightLoader& loader = spec.loader;
  const int64_t width = hp.hidden_width();
  HyperConnection block;
  ASSIGN_OR_RETURN(block.gain_, load_gains(loader, prefix + "_norm.weight", hp));
  ASSIGN_OR_RETURN(block.down_, loader.matrix(prefix + "_down.weight", width, hp.stream_rank));
  ASSIGN_OR_RETURN(block.up_, loader.matrix(prefix + "_up.weight", hp.stream_rank, width));
  if (!only_mixes) {
    ASSIGN_OR_RETURN(block.inject_, loader.matrix(prefix + "_inject.weight", width, hp.n_streams));
  }
  return block;
}

void HyperConnection::declare(const HParams& hp, Activations& act) const {
  act.need(Act::kStreams, hp.hidden_width());
  act.need(Act::kStreamGates, hp.hidden_width());
  act.need(Act::kStreamLow, hp.stream_rank);
  act.need(Act::kStreamAmounts, hp.n_streams);
  act.need(Act::kBranch, hp.dim);
}

void HyperConnection::enqueue_mix(const StepContext& ctx) const {
  enqueue_mix(ctx, ctx.hidden(), ctx.in.live(), ctx.normed());
}

void HyperConnection::enqueue_mix(const StepContext& ctx, const device::View<float>& x,
                                  const device::In<int32_t>& live, const device::View<float>& y) const {
  const HParams& hp = ctx.hp;
  device::HyperMix mix{.x = x,
                       .gain = gain_,
                       .down = down_,
                       .up = up_,
                       .inject = inject_,
                       .live = live,
                       .normed = ctx.act.view(Act::kStreams, x.rows, x.cols),
                       .low = ctx.act.view(Act::kStreamLow, x.rows, hp.stream_rank),
                       .gates = ctx.act.view(Act::kStreamGates, x.rows, x.cols),
                       .y = y,
                       .amounts = {},
                       .n_streams = hp.n_streams,
                       .eps = hp.eps};
  if (!inject_.empty()) mix.amounts = ctx.act.view(Act::kStreamAmounts, x.rows, hp.n_streams);
  ctx.stream.enqueue(mix);
}

void HyperConnection::enqueue_add(const StepContext& ctx) const {
  ctx.stream.enqueue(device::HyperAdd{.y = ctx.sum(),
                                      .amounts = ctx.view(Act::kStreamAmounts, ctx.hp.n_streams),
                                      .live = ctx.in.live(),
                                      .x = ctx.hidden()});
}

}  // namespace strata::model
