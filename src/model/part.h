// A part of a model: a run of layers on one device, with its weights, sequence memory, activations and stream.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/stats.h"
#include "device/device.h"
#include "device/host/compute.h"
#include "experts/cache.h"
#include "model/network.h"
#include "model/ngram/feed.h"

namespace strata::model {

// How steps of many rows use the experts that the device's cache lacks (experts/streamed_dispatch.h).
struct StreamOptions {
  experts::RingPlan ring;  // that they stream through; empty: no step streams
  bool borrowed = true;    // the ring lies in slots that the cache lends, else in memory of its own
  int64_t min_rows = 0;    // of a step that streams
};

struct PartOptions {
  StepLimits step;
  StateLimits state;
  kernels::KvType kv_type = kernels::KvType::kF32;
  NumericOptions numeric;
  bool use_graphs = true;  // replay captured steps; else enqueue every step anew (the same operations)
  bool on_host = true;     // the device is one whose memory the host can read
  bool cached = false;     // some experts lie in a cache on the device
  int64_t cache_min_slots = 0;
  StreamOptions stream;
  uint64_t blob_bytes = 0;  // of the largest expert
  // [n_experts + 1] of m missing experts, how many the device reads over the link (experts/link_share.h); empty: none.
  std::vector<int32_t> link_shares = {};
  bool look_ahead = false;  // steps of few rows tell the expert source what they are about to ask for
  TableOptions table = {};  // of the n-gram table, where the part has the layer that reads it
};

// What a part is made from; all of it outlives the part.
struct PartSpec {
  const gguf::Model& model;
  const ArchInfo& arch;
  const HParams& hp;
  const experts::ExpertLayout& layout;
  experts::ExpertSource& source;
  device::Device& device;
  device::host::Compute& compute;
  Stats& stats;
  int first;
  int last;
  experts::SlotPlan slots;  // the experts of the device's cache, if options say cached
  experts::RoutingObserver* observer = nullptr;  // hears how rows are routed; null for nobody
  int n_parts = 1;                               // of the model, which share source and threads
};

// Memory of a part, but for its expert cache.
struct PartBytes {
  uint64_t weights = 0;
  uint64_t tensors = 0;  // of the weights: what grows with the layers; the rest is room that small ones don't fill
  uint64_t state = 0;  // KV cache and recurrent state
  uint64_t step = 0;   // inputs, activations, expert rows
  uint64_t ring = 0;   // that experts stream through, unless it is borrowed
  uint64_t host = 0;   // of the host, if the device has memory of its own
  uint64_t device() const { return weights + state + step + ring; }
};

// Used by one thread. Allocates everything when created; a step allocates nothing.
class Part {
 public:
  static Result<std::unique_ptr<Part>> create(const PartSpec& spec, const PartOptions& options);
  // What create() will take of the device, and every error in the metadata and shapes of the layers' tensors that it
  // would find, without allocating or reading any.
  static Result<PartBytes> measure(const gguf::Model& model, const ArchInfo& arch, const HParams& hp, int first,
                                   int last, const PartOptions& options);

  const StateMemory& state() const { return *state_; }
  device::Stream& stream() { return *stream_; }
  const PartOptions& options() const { return options_; }

  // Begins a step for a batch: queues its inputs. The sequences have reserved their blocks. With `stream` it streams
  // the experts that the cache lacks; see streams() and borrow(). The part that ends the model computes the logits that
  // the batch asks for behind the layers, of max_outputs rows at most.
  void begin(std::span<const BatchRows> batch, bool stream);
  // [rows][dim] packed: what layers are computed from where this part does not begin the model, and what they leave.
  device::View<float> hidden(int64_t rows) const;
  // Queues more of the step: a layer of one that streams (which may wait for layers before it), of any other all, as a
  // graph. False when there is no more, or the step was given up.
  bool queue_more();
  // Whether the step was given up while it was queued: nobody wants it any more, or experts cannot be read.
  bool given_up() const { return given_up_; }
  // Chooses rows of the last batch, at most max_outputs, and queues the head for them, unless the step has computed the
  // logits of all of them. Whether anything was queued. Only for a part that ends the model.
  bool head(std::span<const int32_t> rows);
  // Waits for what was queued. The first failure, if there was one; the part is ready for the next step then. A
  // sequence of which a row of the n-gram table could not be read has failed alone (SequenceState::failure).
  Status finish();

  // Whether a step of so many rows can stream.
  bool streams(int64_t n_rows) const;
  // Before a step that streams: the cache lends the ring's memory, if it is to be borrowed and is not yet. On failure
  // nothing has changed.
  Status borrow();
  // Ends the loan, if there is one. On failure it goes on, but no step may stream until give_back() has succeeded.
  Status give_back();
  bool lent() const { return cache_ != nullptr && cache_->lent(); }

  // Asked before every layer, or once where the host has no part in them; true ends the step with kCancelled.
  // Empty for never. Must be safe to call while a step runs.
  void set_interrupt(std::function<bool()> interrupt) { interrupt_ = std::move(interrupt); }
  // After head() and, if it has queued anything, finish(): read(std::span<const float>) -> Status is given the logits
  // of the i-th chosen row, which are there while it runs.
  template <class Read>
  Status logits(int64_t i, const Read& read) const {
    const size_t row = chosen_[static_cast<size_t>(i)];
    const device::View<float> logits = logits_view();
    const auto n = static_cast<size_t>(logits.cols);
    if (!host_logits_) return read(std::span<const float>(logits.row(static_cast<int64_t>(row)), n));
    return read(host_logits_->read<float>(row * n * sizeof(float), n).span());
  }
  // How it reads the n-gram table, for people; empty where it does not.
  std::string table_report() const { return ngram_ ? ngram_->report() : std::string(); }
  // Null when no experts are cached.
  const experts::ExpertCache* cache() const { return cache_.get(); }
  experts::ExpertCache* cache() { return cache_.get(); }

 private:
  Part(const PartSpec& spec, const PartOptions& options)
      : spec_(spec),
        options_(options),
        stream_(spec.device.make_stream("compute")),
        loader_(spec.model, spec.device, *stream_, options.numeric.round_activations) {}
  Status build();
  Status build_experts();
  bool holds_all_experts() const;
  Status capture_all();
  Status capture_streamed();
  Status check_interrupt() const;
  StepContext context(device::Stream& stream, int64_t rows, experts::Dispatch& dispatch) const;
  // [max_outputs][n_vocab], packed.
  device::View<float> logits_view() const {
    return act_.view(Act::kLogits, options_.step.max_outputs, spec_.hp.n_vocab);
  }
  void enqueue_layers(device::Stream& stream, int64_t rows, experts::Dispatch& dispatch) const;
  void enqueue_layer(const StepContext& ctx, int layer) const;
  void queue_streamed_layer();
  void queue_layers();
  void give_up(Error why);
  // The head for outputs_, which the inputs name.
  void queue_head();
  // Where outputs_ has the rows, in their order, goes to chosen_. Whether it has all of them.
  bool find_outputs(std::span<const int32_t> rows);
  // A shape of steps and the graph that was captured for it.
  struct Shape {
    int64_t rows;
    std::unique_ptr<device::Graph> graph;
  };
  // The smallest captured shape for n rows.
  static Shape& shape_for(std::vector<Shape>& shapes, int64_t n);
  void replay(device::Graph& graph);
  Status capture(std::vector<Shape>& shapes, int64_t max_rows, bool head);

  PartSpec spec_;
  PartOptions options_;
  std::unique_ptr<device::Stream> stream_;
  WeightLoader loader_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<StateMemory> state_;
  std::unique_ptr<StepInputs> inputs_;
  std::unique_ptr<NgramFeed> ngram_;  // null where the part does not have that layer
  Activations act_;
  std::unique_ptr<experts::ExpertCache> cache_;
  std::unique_ptr<device::Buffer> ring_memory_;  // of a ring that is not borrowed
  experts::Loan loan_;                           // of one that is
  std::unique_ptr<experts::Dispatch> dispatch_;
  std::unique_ptr<device::HostBuffer> host_logits_;  // where the host cannot read those of the device
  std::function<bool()> interrupt_;
  device::HostTask interrupt_task_;
  std::vector<Shape> layer_shapes_, head_shapes_;  // ascending rows
  std::vector<int32_t> outputs_;  // rows of the step whose logits are computed, room for max_outputs
  std::vector<size_t> chosen_;    // of them, by head()
  // The step that is being queued.
  int64_t rows_ = 0;
  int next_layer_ = 0;  // spec_.last: none
  bool streaming_ = false;
  bool given_up_ = false;
  bool step_queued_ = false;  // all its layers are, and finish() has not seen them
};

}  // namespace strata::model
