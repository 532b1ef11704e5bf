// Dispatch for steps of many rows on a device with memory of its own: all experts are computed there. Those that the
// device's cache lacks come over the link through a ring of banks, on a copy stream of their own, whether or not a row
// was routed to them, while the main stream computes those that came before.
//
//   copy stream: wait `free` of the bank -> blobs, table of the bank -> record `full`
//   main stream: experts in slots -> for each bank: wait `full` -> experts of the bank -> record `free` -> combine
//
// Nothing on the copy stream depends on the routing, so the ring runs on from layer to layer: the first banks of a
// layer are on their way while the one before computes. A bank's table says which experts lie in it; a pair is computed
// from the slot or the bank that has its expert, into its own row, so its bits don't depend on where that was.
#pragma once

#include "device/uploader.h"
#include "experts/device_rows.h"
#include "experts/routing_copy.h"

namespace strata::experts {

// Used by the thread that queues the steps. Its steps are queued anew each time, not captured. Its memory is allocated
// once, but for the ring's, which is given for some steps at a time.
class StreamedDispatch final : public Dispatch {
 public:
  // Of spec.ring, which is not empty. `rows` and `routing` are shared with other kinds of steps; they, and what the
  // spec names, outlive it. kNoMemory when there is no room for bytes_needed().
  static Result<std::unique_ptr<StreamedDispatch>> create(const DispatchSpec& spec, const DeviceRows& rows,
                                                          const RoutingCopy& routing);
  // Without the ring, `rows` and `routing`.
  static DispatchBytes bytes_needed(const DispatchLimits& limits, const RingPlan& ring);
  // Waits for the copies.
  ~StreamedDispatch() override;

  const RingPlan& ring() const { return spec_.ring; }
  // While `on`, run() binds the operations of a layer to the stream it is given and does nothing else: for the capture
  // that sizes the device's workspace before the first step.
  void set_capturing(bool on);
  // From here on the ring lies in these ring().bytes() bytes. Between steps.
  void use_ring(device::Memory& memory, size_t offset);

  // As Dispatch::run, on a stream that runs what it is given. Waits for buffers and reads expert bytes as it goes, with
  // the threads of the pool when it is its turn.
  // Experts that cannot be read fail the stream; then the rest of the step, up to end_step(), queues nothing.
  void run(device::Stream& stream, int32_t layer, const device::In<int32_t>& ids, const device::In<float>& weights,
           const device::In<float>& x, const device::InOut<float>& y, const device::In<int32_t>& live,
           const ExpertFormula& formula, const NextLayer*) override;
  // Whether it has failed the stream in this step.
  bool failed() const { return failed_; }
  // Ends a step: returns when nothing writes to the ring any more. A failed copy is reported, and then forgotten.
  Status end_step();

 private:
  struct Bank {
    std::unique_ptr<device::Event> full;  // on the copy stream: experts and table have come
    std::unique_ptr<device::Event> free;  // on the main stream: they have been used
  };
  struct CountTask {
    device::HostTask task;
    int32_t layer;
  };

  StreamedDispatch(const DispatchSpec& spec, const DeviceRows& rows, const RoutingCopy& routing)
      : spec_(spec), rows_(rows), routing_(routing), banks_(static_cast<size_t>(spec.ring.n_banks)) {}
  Status allocate();
  // Device and host agree that all banks are empty.
  Status clear_tables();
  void make_tasks();
  void upload_offsets();
  void enqueue_cached(device::Stream& stream, const LayerRows& rows) const;
  void enqueue_bank(device::Stream& stream, const LayerRows& rows, size_t bank) const;
  // All the experts of the layer that the cache lacks.
  Status enqueue_missing(device::Stream& stream, const LayerRows& rows);
  // Experts of the layer from `expert` on that the cache lacks, as many as are fetched at once; moves `expert` behind
  // the last of them.
  void gather(int32_t layer, int32_t& expert, std::vector<ExpertKey>& keys) const;
  int32_t last_layer() const;  // one past it
  // Tells the source what is fetched next, from this expert on.
  void hint_after(int32_t layer, int32_t expert);
  // Queues the way of the experts keys_ into the bank. They are of one layer; the leases, one for each, are released.
  void fill(size_t bank, std::span<Lease> leases);
  // Bytes of page-locked memory and where they go in memory_.
  struct Way {
    const device::HostBuffer* from = nullptr;
    size_t from_offset = 0, to_offset = 0, bytes = 0;
  };
  // Straight out of page-locked memory, if the blob lies there; else through the uploader.
  void copy_blob(Lease& lease, size_t offset);
  void copy_pinned(const Lease& lease, const LayerLayout& layer, size_t offset);
  // Neighbours that go to neighbours are copied together: a link is at its best with long copies.
  void add_way(const Way& way);
  void copy_way();
  void copy_table(size_t bank);
  size_t table_offset(size_t bank) const {
    return bank * static_cast<size_t>(spec_.limits.n_experts) * sizeof(int32_t);
  }

  DispatchSpec spec_;
  const DeviceRows& rows_;
  const RoutingCopy& routing_;
  std::vector<Bank> banks_;
  std::unique_ptr<device::Stream> copies_;
  std::unique_ptr<device::Buffer> tables_;             // int32 [banks][n_experts] place in the bank, or -1
  std::unique_ptr<device::HostBuffer> staged_tables_;  // the same, pinned
  std::unique_ptr<device::Buffer> offsets_;            // int64 [banks][places] where each starts in memory_
  std::unique_ptr<device::Uploader> uploader_;         // on the copy stream
  std::vector<CountTask> tasks_;                       // [layers]
  std::vector<ExpertKey> keys_, next_keys_;
  std::vector<Lease> leases_;  // as many as are held at once
  Way way_;                    // that is not queued yet

  device::Memory* memory_ = nullptr;  // the ring lies in it
  size_t offset_ = 0;                 // where it starts
  size_t next_bank_ = 0;
  bool capturing_ = false;
  bool started_ = false;  // a step or a ring has been begun since end_step()
  bool failed_ = false;   // a bank could not be filled since end_step()
};

}  // namespace strata::experts
