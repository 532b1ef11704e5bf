#include "model/blocks/latent_attention.h"

#include <numeric>
#include <vector>

namespace strata::model {
namespace {

int64_t heads_width(const HParams& hp) { return int64_t{hp.n_heads} * hp.latent.head_dim(hp.rope); }
// What the first projection of the queries gives.
int64_t first_width(const HParams& hp) { return hp.latent.q_rank > 0 ? hp.latent.q_rank : heads_width(hp); }

// Rows [first, first + count) of each head's `per_head`.
std::vector<int64_t> rows_of_heads(int64_t n_heads, int64_t per_head, int64_t first, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(n_heads * count));
  for (int64_t h = 0; h < n_heads; h++) {
    const auto begin = order.begin() + h * count;
    std::iota(begin, begin + count, h * per_head + first);
  }
  return order;
}

}  // namespace

Status LatentAttentionBlock::load_queries(const NetworkSpec& spec, const std::string& prefix) {
  const HParams& hp = spec.hp;
  if (hp.latent.q_rank == 0) {
    ASSIGN_OR_RETURN(first_, spec.loader.matrix(prefix + "attn_q.weight", hp.dim, heads_width(hp)));
    return {};
  }
  ASSIGN_OR_RETURN(first_, spec.loader.matrix(prefix + "attn_q_a.weight", hp.dim, hp.latent.q_rank));
  ASSIGN_OR_RETURN(q_norm_, spec.loader.vector(prefix + "attn_q_a_norm.weight", hp.latent.q_rank));
  ASSIGN_OR_RETURN(second_, spec.loader.matrix(prefix + "attn_q_b.weight", hp.latent.q_rank, heads_width(hp)));
  return {};
}

// Older files have both matrices of a head in one tensor, the first one not transposed: it is read as it stands.
Status LatentAttentionBlock::load_head_matrices(const NetworkSpec& spec, const std::string& prefix) {
  const HParams& hp = spec.hp;
  const LatentShape& shape = hp.latent;
  if (!spec.loader.has(prefix + "attn_kv_b.weight")) {
    ASSIGN_OR_RETURN(absorb_, spec.loader.head_matrices(prefix + "attn_k_b.weight", shape.nope_dim, shape.kv_rank,
                                                        hp.n_heads));
    ASSIGN_OR_RETURN(values_, spec.loader.head_matrices(prefix + "attn_v_b.weight", shape.kv_rank, shape.value_dim,
                                                        hp.n_heads));
    return {};
  }
  const int64_t per_head = shape.nope_dim + shape.value_dim;
  const auto take = [&](int64_t first, int64_t count) {
    return spec.loader.matrix_rows(prefix + "attn_kv_b.weight", shape.kv_rank, hp.n_heads * per_head,
                                   rows_of_heads(hp.n_heads, per_head, first, count));
  };
  ASSIGN_OR_RETURN(absorb_, take(0, shape.nope_dim));
  ASSIGN_OR_RETURN(values_, take(shape.nope_dim, shape.value_dim));
  absorb_.rounding = device::Rounding::kNone;
  transposed_ = true;
  return {};
}

Result<LatentAttentionBlock> LatentAttentionBlock::load(const NetworkSpec& spec, const std::string& prefix) {
  const HParams& hp = spec.hp;
  LatentAttentionBlock block;
  ASSIGN_OR_RETURN(block.norm_, spec.loader.vector(prefix + "attn_norm.weight", hp.dim));
  RETURN_IF_ERROR(block.load_queries(spec, prefix));
  ASSIGN_OR_RETURN(block.latent_, spec.loader.matrix(prefix + "attn_kv_a_mqa.weight", hp.dim, hp.key_dim));
  ASSIGN_OR_RETURN(block.latent_norm_, spec.loader.vector(prefix + "attn_kv_a_norm.weight", hp.latent.kv_rank));
  RETURN_IF_ERROR(block.load_head_matrices(spec, prefix));
  ASSIGN_OR_RETURN(block.output_, spec.loader.matrix(prefix + "attn_output.weight",
                                                     int64_t{hp.n_heads} * hp.latent.value_dim, hp.dim));
  block.output_.round_finely();
  return block;
}

void LatentAttentionBlock::declare(const HParams& hp, Activations& act) const {
  const int64_t n_heads = hp.n_heads;
  act.need(Act::kProjected, first_width(hp) + hp.key_dim);
  if (!second_.empty()) {
    act.need(Act::kNormed, hp.latent.q_rank);
    act.need(Act::kHeads, heads_width(hp));
  }
  act.need(Act::kAbsorbed, n_heads * hp.key_dim);
  act.need(Act::kMixed, n_heads * hp.value_dim);
  act.need(Act::kMixedOut, n_heads * hp.latent.value_dim);
}

void LatentAttentionBlock::enqueue(const StepContext& ctx, int layer) const {
  const HParams& hp = ctx.hp;
  const int64_t n_heads = hp.n_heads;
  const device::In<int32_t> live = ctx.in.live();
  const device::View<float> projected = ctx.view(Act::kProjected, first_width(hp) + hp.key_dim);
  const device::View<float> absorbed = ctx.view(Act::kAbsorbed, n_heads * hp.key_dim);
  const device::View<float> mixed = ctx.view(Act::kMixed, n_heads * hp.value_dim);
  const device::View<float> out = ctx.view(Act::kMixedOut, n_heads * hp.latent.value_dim);
  device::View<float> heads = projected.columns(0, first_width(hp));
  device::Project project = ctx.project(norm_, projected);
  project.parts[0].w = first_;
  project.parts[1].w = latent_;
  ctx.stream.enqueue(project);
  if (!second_.empty()) {
    const device::View<float> queries = heads;
    heads = ctx.view(Act::kHeads, heads_width(hp));
    ctx.stream.enqueue(device::Project{.x = queries,
                                       .gain = q_norm_,
                                       .parts = {{.w = second_, .bias = {}}},
                                       .live = live,
                                       .normed = ctx.view(Act::kNormed, hp.latent.q_rank),
                                       .y = heads,
                                       .eps = hp.eps});
  }
  ctx.stream.enqueue(device::HeadMatMul{
      .w = absorb_, .x = heads, .live = live, .y = absorbed, .n_heads = hp.n_heads, .transposed = transposed_});
  ctx.stream.enqueue(device::LatentAttend{.heads = heads,
                                          .q = absorbed,
                                          .latent = projected.columns(first_width(hp), hp.key_dim),
                                          .gain = latent_norm_,
                                          .cos_sin = ctx.cos_sin(),
                                          .rows = ctx.in.row_map(ctx.rows),
                                          .kv = ctx.state.kv(layer),
                                          .y = mixed,
                                          .n_heads = hp.n_heads,
                                          .scale = hp.latent.softmax_scale(hp.rope),
                                          .eps = hp.eps});
  ctx.stream.enqueue(
      device::HeadMatMul{.w = values_, .x = mixed, .live = live, .y = out, .n_heads = hp.n_heads});
  ctx.stream.enqueue(
      device::MatMul{.w = output_, .x = out, .bias = {}, .live = live, .y = ctx.sum(), .accumulate = true});
}

}  // namespace strata::model
