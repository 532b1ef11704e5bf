// qwen4exp: Qwen3.8-Flash-Next. Several residual streams that every block reads as one mixture; three delta-net layers
// (output gate sigmoid, value heads tiled over key heads) for each layer of gated attention, which goes to the blocks
// of tokens that an indexer chooses; features of the last tokens from a table in one layer; softmax routing
// renormalised over the chosen experts, and a gated shared expert. There are no norms but those of the mixtures.
#include <optional>
#include <utility>
#include <variant>

#include "base/format.h"
#include "model/arch/arch.h"
#include "model/arch/hybrid.h"
#include "model/blocks/ends.h"
#include "model/blocks/hyper_connection.h"
#include "model/blocks/moe.h"
#include "model/blocks/ngram.h"
#include "model/blocks/sparse_attention.h"

namespace strata::model {
namespace {

constexpr int64_t kMaxStreams = 16;
constexpr int64_t kMaxBudget = 1 << 17;  // tokens that sparse attention goes to

class Qwen4ExpNetwork final : public Network {
 public:
  using Mixer = std::variant<DeltaNetBlock, AttentionBlock, SparseAttentionBlock>;
  struct Layer {
    HyperConnection mixer_streams;
    Mixer mixer;
    HyperConnection moe_streams;
    MoeBlock moe;
  };

  static Result<std::unique_ptr<Network>> build(const NetworkSpec& spec);

  void declare(Activations& act) const override;
  void enqueue_start(const StepContext& ctx, bool embed) const override;
  void enqueue_layer(const StepContext& ctx, int layer) const override;
  void enqueue_head(const StepContext& ctx, int64_t outputs) const override { ends_.enqueue_head(ctx, outputs); }

 private:
  explicit Qwen4ExpNetwork(const NetworkSpec& spec) : hp_(spec.hp), first_(spec.first) {}
  static Result<Mixer> load_mixer(const NetworkSpec& spec, const std::string& prefix, int layer);
  static Result<Layer> load_layer(const NetworkSpec& spec, int layer);

  HParams hp_;
  int first_;
  EndsBlock ends_;
  std::optional<NgramBlock> ngram_;  // of layer hp.ngram.layer, if it is one of these
  std::vector<Layer> layers_;
};

Result<std::unique_ptr<Network>> Qwen4ExpNetwork::build(const NetworkSpec& spec) {
  std::unique_ptr<Qwen4ExpNetwork> network(new Qwen4ExpNetwork(spec));
  for (int i = spec.first; i < spec.last; i++) {
    if (i == spec.hp.ngram.layer) {
      ASSIGN_OR_RETURN(network->ngram_, NgramBlock::load(spec, format("blk.{}.", i)));
    }
    ASSIGN_OR_RETURN(Layer layer, load_layer(spec, i));
    network->layers_.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(network->ends_, EndsBlock::load(spec, false));
  return std::unique_ptr<Network>(std::move(network));
}

Result<Qwen4ExpNetwork::Mixer> Qwen4ExpNetwork::load_mixer(const NetworkSpec& spec, const std::string& prefix,
                                                           int layer) {
  if (spec.hp.recurrent[static_cast<size_t>(layer)]) {
    ASSIGN_OR_RETURN(DeltaNetBlock block,
                     DeltaNetBlock::load(spec, prefix, {.norm = false, .sigmoid_gate = true}));
    return Mixer(std::move(block));
  }
  const AttentionOptions options{.norm = false, .gated = true, .q_k_norm = true};
  if (spec.hp.index_block(layer) > 0) {
    ASSIGN_OR_RETURN(SparseAttentionBlock block, SparseAttentionBlock::load(spec, prefix, options));
    return Mixer(std::move(block));
  }
  ASSIGN_OR_RETURN(AttentionBlock block, AttentionBlock::load(spec, prefix, options));
  return Mixer(std::move(block));
}

Result<Qwen4ExpNetwork::Layer> Qwen4ExpNetwork::load_layer(const NetworkSpec& spec, int layer) {
  const std::string prefix = format("blk.{}.", layer);
  Layer loaded;
  ASSIGN_OR_RETURN(loaded.mixer_streams, HyperConnection::load(spec, prefix + "hc_attn", false));
  ASSIGN_OR_RETURN(loaded.mixer, load_mixer(spec, prefix, layer));
  ASSIGN_OR_RETURN(loaded.moe_streams, HyperConnection::load(spec, prefix + "hc_ffn", false));
  ASSIGN_OR_RETURN(loaded.moe, MoeBlock::load(spec, prefix, {.norm = nullptr, .shared_gate = true}));
  return loaded;
}

void Qwen4ExpNetwork::declare(Activations& act) const {
  ends_.declare(hp_, act);
  if (ngram_) ngram_->declare(hp_, act);
  for (const Layer& layer : layers_) {
    layer.mixer_streams.declare(hp_, act);
    std::visit([&](const auto& block) { block.declare(hp_, act); }, layer.mixer);
    layer.moe_streams.declare(hp_, act);
    layer.moe.declare(hp_, act);
  }
}

void Qwen4ExpNetwork::enqueue_start(const StepContext& ctx, bool embed) const {
  ends_.enqueue_start(ctx, embed);
  const device::View<float> sum = ctx.sum();
  ctx.stream.fill_zero(*sum.memory, 0, static_cast<size_t>(sum.rows * sum.stride) * sizeof(float));
}

void Qwen4ExpNetwork::enqueue_layer(const StepContext& ctx, int layer) const {
  const auto index = static_cast<size_t>(layer - first_);
  const Layer& now = layers_[index];
  if (ngram_ && layer == hp_.ngram.layer) ngram_->enqueue(ctx, layer);
  now.mixer_streams.enqueue_mix(ctx);
  std::visit([&](const auto& block) { block.enqueue(ctx, layer); }, now.mixer);
  now.mixer_streams.enqueue_add(ctx);
  now.moe_streams.enqueue_mix(ctx);
  now.moe.enqueue(ctx, layer, index + 1 < layers_.size() ? &layers_[index + 1].moe : nullptr);
  now.moe_streams.enqueue_add(ctx);
}

Status read_streams(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(const int64_t streams, keys.require_int("hyper_connection.count", 2, kMaxStreams));
  hp.n_streams = static_cast<int>(streams);
  ASSIGN_OR_RETURN(hp.stream_rank, keys.require_int("hyper_connection.low_rank", 1, hp.hidden_width()));
  return {};
}

// Which layers attend through an index is for attention.compress_ratios to say, whatever tensors are there.
Status read_ratios(const Keys& keys, HParams& hp) {
  const std::string key = keys.full("attention.compress_ratios");
  const std::string& path = keys.model().path();
  const gguf::Value* ratios = keys.model().find(key);
  if (ratios == nullptr || !ratios->is_array() || ratios->count() < static_cast<uint64_t>(hp.n_layers)) {
    return Error{ErrorCode::kBadInput, format("{}: key {} needs one element for each of {} layers", path, key,
                                              hp.n_layers)};
  }
  for (int i = 0; i < hp.n_layers; i++) {
    const Result<int64_t> ratio = ratios->as_int(static_cast<uint64_t>(i));
    if (!ratio.ok()) return Error{ratio.error().code, format("{}: key {} {}", path, key, ratio.error().message)};
    if (*ratio != 0 && hp.recurrent[static_cast<size_t>(i)]) {
      return Error{ErrorCode::kBadInput,
                   format("{}: key {} is {} for layer {}, which has no attention", path, key, *ratio, i)};
    }
    if (*ratio < 0 || *ratio > kBlockTokens || (*ratio > 0 && kBlockTokens % *ratio != 0)) {
      return Error{ErrorCode::kUnsupported, format("{}: key {} is {} for layer {}, expected 0 or a divisor of {}", path,
                                                   key, *ratio, i, kBlockTokens)};
    }
    hp.index_blocks.push_back(static_cast<int>(*ratio));
  }
  return {};
}

Status read_indexer(const Keys& keys, HParams& hp) {
  RETURN_IF_ERROR(read_ratios(keys, hp));
  for (const int block : hp.index_blocks) {
    if (block == 0) continue;
    ASSIGN_OR_RETURN(const int64_t heads, keys.require_int("attention.indexer.head_count", 1, kMaxHeads));
    ASSIGN_OR_RETURN(const int64_t dim, keys.require_int("attention.indexer.key_length", hp.rope.n_rot, kMaxHeadDim));
    ASSIGN_OR_RETURN(hp.indexer.budget, keys.require_int("attention.indexer.top_k", block, kMaxBudget));
    hp.indexer.n_heads = static_cast<int>(heads);
    hp.indexer.key_dim = static_cast<int>(dim);
    if (hp.indexer.budget % block != 0) {
      return Error{ErrorCode::kBadInput,
                   format("{}: key {} is {}, which blocks of {} tokens do not divide", keys.model().path(),
                          keys.full("attention.indexer.top_k"), hp.indexer.budget, block)};
    }
  }
  return {};
}

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen4exp"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  RETURN_IF_ERROR(keys.int_or("nextn_predict_layers", 0, 0, 1));  // there is no rule for more draft blocks
  RETURN_IF_ERROR(read_hybrid(keys, true, hp));
  RETURN_IF_ERROR(check_text_sections(keys, hp));
  RETURN_IF_ERROR(read_streams(keys, hp));
  RETURN_IF_ERROR(read_indexer(keys, hp));
  if (keys.model().find(keys.full("ple.layers")) != nullptr) {
    ASSIGN_OR_RETURN(hp.ngram, read_ngram(keys, hp));
  }
  return hp;
}

}  // namespace

const ArchInfo kQwen4Exp{"qwen4exp", read, Qwen4ExpNetwork::build};

}  // namespace strata::model
