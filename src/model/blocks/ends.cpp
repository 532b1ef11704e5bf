#include "model/blocks/ends.h"

#include "base/format.h"

namespace strata::model {
namespace {

constexpr float kLeastDivisor = 1e-6f;

// What divides the frequency of each pair: the table of longrope, or what converters make of the scaling of Llama 3;
// empty where the file has neither.
Result<std::vector<float>> load_divisors(const NetworkSpec& spec) {
  const HParams& hp = spec.hp;
  const std::string name = !hp.longrope      ? "rope_freqs.weight"
                           : hp.long_context ? "rope_factors_long.weight"
                                             : "rope_factors_short.weight";
  if (!hp.longrope && !spec.loader.has(name)) return std::vector<float>();
  ASSIGN_OR_RETURN(std::vector<float> divisors, spec.loader.values(name, hp.rope.n_rot / 2));
  for (const float divisor : divisors) {
    if (divisor >= kLeastDivisor && divisor <= 1 / kLeastDivisor) continue;
    return Error{ErrorCode::kBadInput, format("{}: tensor {} has the value {}, expected {} to {}",
                                              spec.loader.model().path(), name, divisor, kLeastDivisor,
                                              1 / kLeastDivisor)};
  }
  return divisors;
}

}  // namespace

Result<RopeTable> load_rope_table(const NetworkSpec& spec) {
  ASSIGN_OR_RETURN(const std::vector<float> divisors, load_divisors(spec));
  kernels::RopeScaling scaling = spec.hp.rope;
  scaling.divisors = divisors;
  const kernels::RopeFrequencies rope = kernels::rope_frequencies(scaling);
  RopeTable table{.inv_freq = {}, .magnitude = rope.magnitude};
  ASSIGN_OR_RETURN(table.inv_freq, spec.loader.constant("rope frequencies", rope.inv_freq));
  return table;
}

Result<EndsBlock> EndsBlock::load(const NetworkSpec& spec, bool output_required) {
  const HParams& hp = spec.hp;
  EndsBlock block;
  const bool last_part = spec.last == hp.n_layers;
  const bool tied = last_part && !output_required && !spec.loader.has("output.weight");
  if (spec.first == 0 || tied) {
    ASSIGN_OR_RETURN(block.embedding_, spec.loader.matrix("token_embd.weight", hp.dim, hp.n_vocab));
  }
  if (last_part) {
    if (hp.n_streams > 1) {
      ASSIGN_OR_RETURN(block.output_mix_, HyperConnection::load(spec, "output_hc", true));
    } else {
      ASSIGN_OR_RETURN(block.output_norm_, spec.loader.vector("output_norm.weight", hp.dim));
    }
    if (tied) {
      block.output_ = block.embedding_;
    } else {
      ASSIGN_OR_RETURN(block.output_, spec.loader.matrix("output.weight", hp.dim, hp.n_vocab));
    }
  }
  ASSIGN_OR_RETURN(block.rope_, load_rope_table(spec));
  return block;
}

void EndsBlock::declare(const HParams& hp, Activations& act) const {
  act.need(Act::kHidden, hp.hidden_width());
  act.need(Act::kNormed, hp.dim);
  act.need(Act::kRope, hp.rope.n_rot);
  act.need(Act::kArrivals, hp.n_heads);
  if (output_.empty()) return;
  act.need(Act::kOutputHidden, hp.hidden_width());
  if (output_mix_) output_mix_->declare(hp, act);
  act.need(Act::kOutputNormed, hp.dim);
  act.need(Act::kLogits, hp.n_vocab);
}

void EndsBlock::enqueue_start(const StepContext& ctx, bool embed) const {
  const HParams& hp = ctx.hp;
  if (embed) {
    for (int c = 0; c < hp.n_streams; c++) {
      ctx.stream.enqueue(device::Embed{.table = embedding_,
                                       .ids = ctx.in.ids(ctx.rows),
                                       .live = ctx.in.live(),
                                       .y = ctx.hidden().columns(c * hp.dim, hp.dim)});
    }
  }
  ctx.stream.enqueue(device::RopeAngles{.positions = ctx.in.row_map(ctx.rows).positions,
                                        .inv_freq = rope_.inv_freq,
                                        .live = ctx.in.live(),
                                        .cos_sin = ctx.cos_sin(),
                                        .magnitude = rope_.magnitude});
  const device::View<int32_t> arrivals = ctx.act.ints(Act::kArrivals, ctx.rows, hp.n_heads);
  ctx.stream.fill_zero(*arrivals.memory, 0, static_cast<size_t>(arrivals.rows * arrivals.stride) * sizeof(int32_t));
}

void EndsBlock::enqueue_head(const StepContext& ctx, int64_t outputs) const {
  const HParams& hp = ctx.hp;
  const device::In<int32_t> live = ctx.in.live_outputs();
  const device::View<float> hidden = ctx.act.view(Act::kOutputHidden, outputs, hp.hidden_width());
  const device::View<float> logits = ctx.act.view(Act::kLogits, outputs, hp.n_vocab);
  ctx.stream.enqueue(
      device::GatherRows{.x = ctx.hidden(), .rows = ctx.in.output_rows(outputs), .live = live, .y = hidden});
  const device::View<float> normed = ctx.act.view(Act::kOutputNormed, outputs, hp.dim);
  if (output_mix_) {
    output_mix_->enqueue_mix(ctx, hidden, live, normed);
    ctx.stream.enqueue(device::MatMul{.w = output_, .x = normed, .bias = {}, .live = live, .y = logits});
    return;
  }
  ctx.stream.enqueue(device::Project{.x = hidden,
                                     .gain = output_norm_,
                                     .parts = {{.w = output_, .bias = {}}},
                                     .live = live,
                                     .normed = normed,
                                     .y = logits,
                                     .eps = hp.eps});
}

}  // namespace strata::model
