#include "model/blocks/ngram.h"

#include "model/ngram/feed.h"

namespace strata::model {

Result<NgramBlock> NgramBlock::load(const NetworkSpec& spec, const std::string& prefix) {
  const HParams& hp = spec.hp;
  const int64_t channels = hp.ngram.channels;
  WeightLoader& loader = spec.loader;
  NgramBlock block;
  ASSIGN_OR_RETURN(block.key_, loader.matrix(prefix + "ple_key.weight", hp.ngram.width(), channels));
  ASSIGN_OR_RETURN(block.value_, loader.matrix(prefix + "ple_value.weight", hp.ngram.width(), hp.dim));
  ASSIGN_OR_RETURN(block.key_gain_, loader.vector(prefix + "ple_norm_key.weight", channels));
  ASSIGN_OR_RETURN(block.query_gain_, loader.vector(prefix + "ple_norm_query.weight", channels));
  ASSIGN_OR_RETURN(block.conv_gain_, loader.vector(prefix + "ple_norm_conv.weight", channels));
  ASSIGN_OR_RETURN(block.taps_, loader.float_rows(prefix + "ple_conv1d.weight", hp.ngram.kernel, channels));
  return block;
}

void NgramBlock::declare(const HParams& hp, Activations& act) const {
  act.need(Act::kNgramRows, hp.ngram.width());
  act.need(Act::kProjected, hp.ngram.channels + hp.dim);
  act.need(Act::kMixed, hp.ngram.channels);
}

void NgramBlock::enqueue(const StepContext& ctx, int layer) const {
  const HParams& hp = ctx.hp;
  const NgramParams& params = hp.ngram;
  const device::In<int32_t> live = ctx.in.live();
  const device::View<float> rows = ctx.view(Act::kNgramRows, params.width());
  const device::View<float> projected = ctx.view(Act::kProjected, params.channels + hp.dim);
  const device::View<float> key = projected.columns(0, params.channels);
  const device::View<float> value = projected.columns(params.channels, hp.dim);
  const device::View<float> normed = ctx.view(Act::kMixed, params.channels);
  ctx.ngram->enqueue(ctx.stream, ctx.rows, rows);
  ctx.stream.enqueue(device::Project{.x = rows,
                                     .gain = {},
                                     .parts = {{.w = key_, .bias = {}}, {.w = value_, .bias = {}}},
                                     .live = live,
                                     .normed = {},
                                     .y = projected});
  ctx.stream.enqueue(device::StreamGate{.x = ctx.hidden(),
                                        .key = key,
                                        .value = value,
                                        .key_gain = key_gain_,
                                        .query_gain = query_gain_,
                                        .out_gain = conv_gain_,
                                        .live = live,
                                        .normed = normed,
                                        .eps = hp.eps});
  ctx.stream.enqueue(device::DistantConv{.y = normed,
                                         .add = key,
                                         .taps = taps_,
                                         .history = ctx.state.fixed(layer, FixedState::kNgram),
                                         .segments = ctx.in.segments(),
                                         .positions = ctx.in.row_map(ctx.rows).positions,
                                         .x = ctx.hidden(),
                                         .kernel = params.kernel,
                                         .distance = params.size});
}

}  // namespace strata::model
