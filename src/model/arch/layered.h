// The frame of architectures whose layers are one after another `x += mixer(norm(x)); x += ffn(norm(x))` with one
// residual stream; the ffn of a layer is its experts, or an MLP where hp.dense says so.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "model/arch/arch.h"
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

// How an architecture's layers differ in what is loaded.
template <class Mixer>
struct LayeredRecipe {
  bool output_required;  // no tied embedding
  MoeOptions moe;        // moe.norm is the name of dense layers' norms too
  Result<Mixer> (*load_mixer)(const NetworkSpec& spec, const std::string& prefix, int layer);
};

template <class Mixer>
Result<std::unique_ptr<Network>> build_layered(const NetworkSpec& spec, const LayeredRecipe<Mixer>& recipe) {
  using Layers = LayeredNetwork<Mixer>;
  std::vector<typename Layers::Layer> layers;
  for (int i = spec.first; i < spec.last; i++) {
    const std::string prefix = format("blk.{}.", i);
    typename Layers::Layer layer;
    ASSIGN_OR_RETURN(layer.mixer, recipe.load_mixer(spec, prefix, i));
    if (spec.hp.dense[static_cast<size_t>(i)]) {
      ASSIGN_OR_RETURN(layer.ffn, MlpBlock::load(spec, prefix, recipe.moe.norm));
    } else {
      ASSIGN_OR_RETURN(layer.ffn, MoeBlock::load(spec, prefix, recipe.moe));
    }
    layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(EndsBlock ends, EndsBlock::load(spec, recipe.output_required));
  return std::unique_ptr<Network>(new Layers(spec.hp, spec.first, std::move(ends), std::move(layers)));
}

}  // namespace strata::model
