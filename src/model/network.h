// A model's layers as they are enqueued on a part's stream. An architecture is one file in arch/ and one row in
// arch/registry.cpp; blocks/ holds what architectures share.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "experts/dispatch.h"
#include "model/hparams.h"
#include "model/sequence.h"
#include "model/step.h"
#include "model/weights.h"

namespace strata::model {

class NgramFeed;

struct NumericOptions {
  bool deterministic = false;      // results don't depend on how prompts are cut
  bool round_activations = false;  // to 8 bits, for integer products, where weight types have them
};

// What a layer enqueues with: the stream, the shape bucket and the memory of the part.
struct StepContext {
  device::Stream& stream;
  int64_t rows;  // bucket: rows of the views; the live ones are a step input
  const HParams& hp;
  const StepInputs& in;
  const Activations& act;
  const StateMemory& state;
  experts::Dispatch& dispatch;
  NumericOptions numeric;
  const NgramFeed* ngram = nullptr;  // where the part has the layer that reads the n-gram table
  bool look_ahead = false;  // tell the dispatch which experts a layer is about to use, and the next one may

  device::View<float> view(Act a, int64_t cols) const { return act.view(a, rows, cols); }
  // The residual: hp.n_streams streams, one behind the other in a row.
  device::View<float> hidden() const { return view(Act::kHidden, hp.hidden_width()); }
  // Where a layer's blocks add what they compute: the residual itself where it is one stream.
  device::View<float> sum() const { return hp.n_streams == 1 ? hidden() : view(Act::kBranch, hp.dim); }
  device::View<float> normed() const { return view(Act::kNormed, hp.dim); }
  device::View<float> cos_sin() const { return view(Act::kRope, hp.rope.n_rot); }

  // What projects a block's input to y, but for its parts: of the normed residual, or where `gain` is empty of what
  // normed() holds.
  device::Project project(const device::In<float>& gain, const device::View<float>& y) const {
    const bool norms = !gain.empty();
    return device::Project{.x = norms ? hidden() : normed(),
                           .gain = gain,
                           .live = in.live(),
                           .normed = norms ? normed() : device::View<float>(),
                           .y = y,
                           .eps = hp.eps};
  }
};

// The layers [first, last) of a model with their weights on one device; the embedding when first is 0, the head when
// last is the number of layers.
class Network {
 public:
  virtual ~Network() = default;

  // Declares the activations that this part needs.
  virtual void declare(Activations& act) const = 0;
  // Hidden rows from token ids; and whatever a step needs once before its layers.
  virtual void enqueue_start(const StepContext& ctx, bool embed) const = 0;
  virtual void enqueue_layer(const StepContext& ctx, int layer) const = 0;
  // Logits [outputs][n_vocab] of the chosen rows.
  virtual void enqueue_head(const StepContext& ctx, int64_t outputs) const = 0;
};

// What a network is built from.
struct NetworkSpec {
  const HParams& hp;
  WeightLoader& loader;
  int first;
  int last;
};

struct ArchInfo {
  const char* name;  // general.architecture
  Result<HParams> (*read)(const Keys& keys);
  Result<std::unique_ptr<Network>> (*build)(const NetworkSpec& spec);
};

std::span<const ArchInfo* const> all_architectures();
// kUnsupported names the architecture of the file and lists those there are.
Result<const ArchInfo*> find_architecture(const gguf::Model& model);

}  // namespace strata::model
