// Computes the routed experts of a layer where their bytes are and sums their outputs in rank order.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "base/function_ref.h"
#include "base/stats.h"
#include "device/device.h"
#include "device/host/compute.h"
#include "experts/source.h"
#include "experts/streamed_ring.h"

namespace strata::experts {

class ExpertCache;
class RoutingObserver;
class StreamedDispatch;
using device::ExpertFormula;

struct DispatchLimits {
  int64_t max_rows = 0;   // rows of the largest step
  int64_t n_used = 0;     // experts per row
  int64_t n_experts = 0;  // of the layer that has most
  int64_t n_layers = 0;   // of the model
  int64_t blob_bytes = 0;  // of the largest expert
  int64_t dim = 0;
  int64_t ffn = 0;

  int64_t pairs() const { return max_rows * n_used; }
  int64_t input_cols() const { return dim > ffn ? dim : ffn; }  // of the scratch for experts' inputs
};

// What a dispatch is made from; all of it outlives the dispatch.
struct DispatchSpec {
  device::Device& device;
  device::host::Compute& compute;  // for experts that are computed on the CPU
  ExpertSource& source;
  const ExpertLayout& layout;
  DispatchLimits limits;
  Stats& stats;
  ExpertCache* cache = nullptr;  // of the same device; null: no expert lies there
  bool whole_cache = false;      // it has all experts of the layers that are run, lends none and moves none
  RingPlan ring = {};            // that steps of many rows stream experts through; empty: none do
  // [n_experts + 1] of m missing experts, how many the device reads over the link (link_share.h); empty: none.
  std::span<const int32_t> link_shares = {};
  RoutingObserver* observer = nullptr;  // hears how rows are routed; null for nobody
  int32_t last_layer = INT32_MAX;       // one past the last layer that is run, if not all are
  int n_sharers = 1;                    // dispatches that hold leases of the source at the same time
  std::function<Status()> interrupt = {};  // asked in each layer that asks_interrupt(); an error ends the step

  // Of the leases that the source serves at once, this dispatch's share.
  int64_t lease_limit() const {
    const int64_t all = source.lease_limit();
    return all == INT64_MAX ? all : std::max<int64_t>(all / n_sharers, 1);
  }
};

struct DispatchBytes {
  uint64_t device = 0;
  uint64_t host = 0;  // pinned and pageable buffers
  uint64_t total() const { return device + host; }
};

// The layer behind one: a dispatch may ask what its router would choose of this layer's rows, to be ready for it.
struct NextLayer {
  int32_t layer;
  // Queues that router; it puts its choice, best first, into ids [rows][k] and touches nothing else that is in use.
  FunctionRef<void(const device::Out<int32_t>& ids)> enqueue_router;
};

// Rows of a step in which the host has a part only where it cannot do without, since each word with it costs time.
inline constexpr int64_t kFewRows = 16;

// One per part of a model. Its memory is allocated once; a step allocates nothing.
class Dispatch {
 public:
  // Computes everything on the CPU where the host can read the device's memory and there is no cache; else the experts
  // of the cache on the device and the others on the CPU, where there are others. That of a model without experts is
  // never run and takes no memory. kNoMemory when the row buffers don't fit.
  static Result<std::unique_ptr<Dispatch>> create(const DispatchSpec& spec);
  virtual ~Dispatch() = default;
  // What create() allocates, but for streaming (StreamedDispatch::bytes_needed). `all_on_host`: neither a cache nor a
  // device whose memory the host cannot read.
  static DispatchBytes bytes_needed(const DispatchLimits& limits, bool all_on_host);

  // Enqueues y[r] += sum over ranks j of weights[r][j] * expert ids[r][j] of x[r], for the live rows. A layer is always
  // given the same memory (its first views decide), so that captured graphs stay valid. Rows of ids and x are packed,
  // except where all is computed on the host. `next`: null for no guesses.
  //   ids int32 [rows][k], weights [rows][k], x [rows][dim], y [rows][dim]
  virtual void run(device::Stream& stream, int32_t layer, const device::In<int32_t>& ids,
                   const device::In<float>& weights, const device::In<float>& x, const device::InOut<float>& y,
                   const device::In<int32_t>& live, const ExpertFormula& formula, const NextLayer* next) = 0;

  // Where the router is to put the ids of a layer in a step of so many rows, packed; empty: anywhere.
  virtual device::View<int32_t> own_ids(int32_t layer, int64_t rows);
  // Enqueues what is left to do behind the last layer of a step of so many rows.
  virtual void finish(device::Stream& stream, int64_t rows);
  // What is left to the host: the stream is past all that was queued for a step of so many rows, and none of it failed.
  // The first `live` of them count.
  virtual void step_done(int64_t rows, int64_t live);
  // Whether the layers of a step of so many rows wait for host tasks.
  virtual bool host_takes_part(int64_t rows) const;
  // Whether they ask DispatchSpec::interrupt in these, so that nobody needs a task of his own for it.
  virtual bool asks_interrupt() const { return false; }

  // The dispatch for steps that stream, in the same memory as this one; null where spec.ring is empty. Dispatches that
  // compute everything on the CPU have none.
  virtual StreamedDispatch* streamed() { return nullptr; }

  // Enqueues a hint to the source: these experts are about to be asked for, or may be. Changes no result. A layer's
  // hints of a kind are always given the same memory.
  //   ids int32 [rows][k], best first
  virtual void hint(device::Stream& stream, int32_t layer, HintKind kind, const device::In<int32_t>& ids,
                    const device::In<int32_t>& live);
};

}  // namespace strata::experts
