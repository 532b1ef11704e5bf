// The frame of architectures whose layers are one after another `x += mixer(norm(x)); x += ffn(norm(x))` with one
// residual stream; the ffn of a layer is its experts, or an MLP where hp.dense says so.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "model/arch/arch.h"
#include "model/blocks/attention.h"
#include "model/blocks/ends.h"
#include "model/blocks/mlp.h"
#include "model/blocks/moe.h"

namespace strata::model {

// Mixer: what stands before the first residual sum, its norm included. It has declare(hp, act) and enqueue(ctx, layer).
template <class Mixer>
class LayeredNetwork final : public Network {
 public:
  struct Layer {
    Mixer mixer;
    std::variant<MoeBlock, MlpBlock> ffn;
  };

  LayeredNetwork(const HParams& hp, int first, EndsBlock ends, std::vector<Layer> layers)
      : hp_(hp), first_(first), ends_(std::move(ends)), layers_(std::move(layers)) {}

  void declare(Activations& act) const override {
    ends_.declare(hp_, act);
    for (const Layer& layer : layers_) {
      layer.mixer.declare(hp_, act);
      std::visit([&](const auto& ffn) { ffn.declare(hp_, act); }, layer.ffn);
    }
  }
  void enqueue_start(const StepContext& ctx, bool embed) const override { ends_.enqueue_start(ctx, embed); }
  void enqueue_layer(const StepContext& ctx, int index) const override {
    const Layer& layer = layers_[static_cast<size_t>(index - first_)];
    layer.mixer.enqueue(ctx, index);
    if (const auto* mlp = std::get_if<MlpBlock>(&layer.ffn)) return mlp->enqueue(ctx);
    const auto next = static_cast<size_t>(index - first_) + 1;
    const auto* next_moe = next < layers_.size() ? std::get_if<MoeBlock>(&layers_[next].ffn) : nullptr;
    std::get<MoeBlock>(layer.ffn).enqueue(ctx, index, next_moe);
  }
  void enqueue_head(const StepContext& ctx, int64_t outputs) const override { ends_.enqueue_head(ctx, outputs); }

 private:
  HParams hp_;
  int first_;
  EndsBlock ends_;
  std::vector<Layer> layers_;
};

// What an architecture's layers are loaded with, beside their mixers.
struct LayeredOptions {
  bool output_required = false;  // no tied embedding
  MoeOptions moe = {};           // moe.norm is the name of dense layers' norms too
};

// load_mixer(prefix, layer) gives the Result of a layer's mixer.
template <class LoadMixer>
Result<std::unique_ptr<Network>> build_layered(const NetworkSpec& spec, const LayeredOptions& options,
                                               const LoadMixer& load_mixer) {
  using Mixer = std::decay_t<decltype(load_mixer(std::string(), 0).value())>;
  using Layers = LayeredNetwork<Mixer>;
  std::vector<typename Layers::Layer> layers;
  for (int i = spec.first; i < spec.last; i++) {
    const std::string prefix = format("blk.{}.", i);
    typename Layers::Layer layer;
    ASSIGN_OR_RETURN(layer.mixer, load_mixer(prefix, i));
    if (spec.hp.dense[static_cast<size_t>(i)]) {
      ASSIGN_OR_RETURN(layer.ffn, MlpBlock::load(spec, prefix, options.moe.norm));
    } else {
      ASSIGN_OR_RETURN(layer.ffn, MoeBlock::load(spec, prefix, options.moe));
    }
    layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(EndsBlock ends, EndsBlock::load(spec, options.output_required));
  return std::unique_ptr<Network>(new Layers(spec.hp, spec.first, std::move(ends), std::move(layers)));
}

// Layers whose mixers are all attention.
inline Result<std::unique_ptr<Network>> build_attention_layers(const NetworkSpec& spec, const LayeredOptions& options,
                                                               const AttentionOptions& attention) {
  return build_layered(spec, options,
                       [&](const std::string& prefix, int) { return AttentionBlock::load(spec, prefix, attention); });
}

}  // namespace strata::model
