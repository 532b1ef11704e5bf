#include "model/blocks/sparse_attention.h"

namespace strata::model {

Result<SparseAttentionBlock> SparseAttentionBlock::load(const NetworkSpec& spec, const std::string& prefix,
                                                        const AttentionOptions& options) {
  ASSERT(!options.norm);
  const IndexerParams& index = spec.hp.indexer;
  WeightLoader& loader = spec.loader;
  SparseAttentionBlock block;
  ASSIGN_OR_RETURN(block.attention_, AttentionBlock::load(spec, prefix, options));
  const int64_t q_width = int64_t{index.n_heads} * index.key_dim;
  ASSIGN_OR_RETURN(block.index_q_, loader.matrix(prefix + "indexer.q_proj.weight", spec.hp.dim, q_width));
  ASSIGN_OR_RETURN(block.index_k_, loader.matrix(prefix + "indexer.k_proj.weight", spec.hp.dim, index.key_dim));
  // What they compute decides between blocks, and costs little.
  block.index_q_.round_finely();
  block.index_k_.round_finely();
  ASSIGN_OR_RETURN(block.q_norm_, loader.vector(prefix + "indexer.q_norm.weight", index.key_dim));
  ASSIGN_OR_RETURN(block.k_norm_, loader.vector(prefix + "indexer.k_norm.weight", index.key_dim));
  ASSIGN_OR_RETURN(block.rope_, load_rope_table(spec));
  return block;
}

void SparseAttentionBlock::declare(const HParams& hp, Activations& act) const {
  attention_.declare(hp, act);
  act.need(Act::kIndex, (int64_t{hp.indexer.n_heads} + 1) * hp.indexer.key_dim);
  for (const int block : hp.index_blocks) {
    if (block > 0) act.need(Act::kChosen, hp.indexer.budget / block + 2);
  }
}

void SparseAttentionBlock::enqueue(const StepContext& ctx, int layer) const {
  const int block = ctx.hp.index_block(layer);
  const device::View<int32_t> chosen = ctx.act.ints(Act::kChosen, ctx.rows, ctx.hp.indexer.budget / block + 2);
  enqueue_choice(ctx, layer, chosen);
  attention_.enqueue_project(ctx);
  const device::AppendAttend both = attention_.append_attend(ctx, layer);
  const device::Attention dense = both.attention();
  ctx.stream.enqueue(both.append);
  ctx.stream.enqueue(device::SparseAttention{.q = dense.q,
                                             .chosen = chosen,
                                             .rows = dense.rows,
                                             .kv = dense.kv,
                                             .y = dense.y,
                                             .n_heads = dense.n_heads,
                                             .q_head_stride = dense.q_head_stride,
                                             .gated = dense.gated,
                                             .block = block,
                                             .scale = dense.scale});
  attention_.enqueue_output(ctx);
}

void SparseAttentionBlock::enqueue_choice(const StepContext& ctx, int layer,
                                          const device::View<int32_t>& chosen) const {
  const IndexerParams& params = ctx.hp.indexer;
  const int64_t q_width = int64_t{params.n_heads} * params.key_dim;
  const device::View<float> projected = ctx.view(Act::kIndex, q_width + params.key_dim);
  const device::View<float> q = projected.columns(0, q_width);
  const device::BlockIndex index = ctx.state.index(layer);
  const device::RowMap rows = ctx.in.row_map(ctx.rows);
  device::Project project = ctx.project({}, projected);
  project.parts[0].w = index_q_;
  project.parts[1].w = index_k_;
  ctx.stream.enqueue(project);
  ctx.stream.enqueue(device::IndexAppend{.q = q,
                                         .k = projected.columns(q_width, params.key_dim),
                                         .q_norm = q_norm_,
                                         .k_norm = k_norm_,
                                         .cos_sin = ctx.cos_sin(),
                                         .inv_freq = rope_.inv_freq,
                                         .rows = rows,
                                         .segments = ctx.in.segments(),
                                         .tail = ctx.state.fixed(layer, FixedState::kIndexTail),
                                         .index = index,
                                         .magnitude = rope_.magnitude,
                                         .eps = ctx.hp.eps});
  ctx.stream.enqueue(device::SelectBlocks{
      .q = q, .rows = rows, .index = index, .chosen = chosen, .most = static_cast<int>(params.budget / index.block)});
}

}  // namespace strata::model
