// The device seam: all concurrency of the engine is written against Device, Stream, Event, Graph and host tasks.
//
// Work is queued on a stream and runs in order. Streams of a device run beside each other; Event and Ticket order them.
// A failure is sticky: the first failing operation of a stream names itself, everything queued after it drains without
// running (waits included, so that nothing hangs), and synchronize() reports it until reset() clears it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/source_site.h"
#include "device/launch.h"
#include "device/memory.h"

namespace strata::device {

class Recording;
class Stream;

// Done when all that was queued on a stream before its record is done. Made by Device::make_event.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;
  virtual void synchronize() const = 0;
};

// A host function as a stream operation. It may run on another thread, after everything queued before it. `ranges`
// declares what it touches of device-visible memory; threads it employs inherit its start and end before it returns.
struct HostTask {
  const char* name = "";
  std::function<Status()> run;  // called once per enqueue or replay; must not allocate on the token path
  std::vector<Range> ranges;
  // In place of run: work that may be left out from any point on. It should end soon once `awaited` says that the
  // stream asks for its next task, on devices that can tell. `awaited` may be called from any thread meanwhile.
  std::function<void(FunctionRef<bool()> awaited)> spare = {};
};
inline Status run_task(const HostTask& task, FunctionRef<bool()> awaited) {
  if (task.run) return task.run();
  task.spare(awaited);
  return {};
}

// Names a host task of a stream (or of the graph being captured) for Stream::wait.
struct Ticket {
  int index = -1;
};

// A recorded list of operations. Replaying runs the same list with whatever its buffers then hold. Belongs to the
// device that captured it; must outlive its replays.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay(Stream& stream) = 0;
  virtual size_t size() const = 0;  // operations
  // What the device goes through in a replay, one after another: kernels, copies, waits.
  virtual size_t n_nodes() const { return size(); }
};

class Stream {
 public:
  explicit Stream(Device* device, std::string name) : device_(device), name_(std::move(name)) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device* device() const { return device_; }
  const std::string& name() const { return name_; }

  // Queues an operation (or records it, on the stream of a capture).
  template <class Op>
  void enqueue(const Op& op, SourceSite site = SourceSite::current()) {
    submit(make_launch(op, device_, site));
  }

  // Copies `bytes`. From pinned host memory the source is read when the copy runs; from pageable memory its bytes are
  // taken before the call returns.
  virtual void copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes,
                    SourceSite site = SourceSite::current()) = 0;
  virtual void fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite site = SourceSite::current()) = 0;

  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;

  // Runs the task after what is queued so far; other work of this stream may go on until wait(ticket). A task that
  // fails fails the stream at that wait. The task stays the caller's and must not move or die before it has run (for a
  // capture: before the graph dies).
  virtual Ticket host_task(const HostTask& task) = 0;
  virtual void wait(Ticket ticket) = 0;

  // Makes the stream fail with `error` from another thread: what has not run yet drains. Any thread.
  virtual void abort(Error error) = 0;
  // Waits until all queued work is done or drained; the sticky error if there is one.
  virtual Status synchronize() = 0;
  // Clears the sticky error after a synchronize(), so that the next step can run.
  virtual void reset() = 0;

 protected:
  virtual void submit(const Launch& launch) = 0;

 private:
  friend class Recording;
  Device* device_;
  std::string name_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;

  // Memory the device may hand out in all, and what is handed out now.
  virtual uint64_t budget_bytes() const = 0;
  virtual uint64_t used_bytes() const = 0;

  // kNoMemory, naming the buffer, its size and what is left, when the budget or the system does not have it. Contents
  // are unspecified. Buffers must die before their device.
  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes, std::string name) = 0;
  virtual Result<std::unique_ptr<HostBuffer>> allocate_host(size_t bytes, MemoryKind kind, std::string name) = 0;

  // Page-locks memory of the program's own, so that copies out of it are pinned memory's, on the streams of all
  // devices. What is returned stands for the range, as memory of the kind kPinned that counts against nothing; its end
  // unlocks the range, which outlives it, and comes after all copies out of it. Nobody writes to the range meanwhile.
  // Ranges may share a page. kUnsupported where the device cannot lock pages that are mapped read-only, kNoMemory or
  // kInternal where the system refuses: the memory is as it was then. Any thread.
  virtual Result<std::unique_ptr<const HostBuffer>> page_lock(std::span<const std::byte> range, MappedAs mapped,
                                                              std::string name) = 0;

  virtual std::unique_ptr<Stream> make_stream(std::string name) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  // Records what `enqueue` queues on the stream it is given, without running it, and grows the device's workspace to
  // what the recorded operations need (kNoMemory when that fails). Enqueueing and capturing are one code path: the same
  // function may be called with a real stream, once it was captured for the largest shape.
  virtual Result<std::unique_ptr<Graph>> capture(const std::function<void(Stream&)>& enqueue) = 0;

  // Whether host code may read and write the device's memory in place.
  virtual bool host_accessible() const = 0;
  // Whether a copy queued on this device's streams may have its other end in `other`'s own memory. Copies between
  // devices that don't reach each other go through pinned host memory, which the streams of all devices can copy from
  // and to.
  virtual bool reaches(const Device& other) const { return &other == this; }
};

}  // namespace strata::device
