// A stream of a simulated device: two lanes (its operations, its host tasks), the order they stand in, and how it
// fails.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "device/host/compute.h"
#include "device/sim/core.h"

namespace strata::device::sim {

class SimDevice;

// Each record starts a new round; a wait is for the round that is the latest when it is queued (none: it waits for
// nothing).
class SimEvent final : public Event {
 public:
  explicit SimEvent(Core& core) : core_(core) {}
  // True orders what the event stands for before the caller.
  bool done() const override;
  void synchronize() const override;

 private:
  friend class SimStream;
  std::shared_ptr<Completion> latest() const;
  void set_latest(std::shared_ptr<Completion> round);

  Core& core_;
  std::shared_ptr<Completion> latest_;  // guarded by the mutex of the schedule
};

// Several threads may queue work. Its end waits for all that is queued, but orders nothing: call synchronize() first.
class SimStream final : public Stream {
 public:
  SimStream(SimDevice& device, std::string name);
  ~SimStream() override;

  void copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes,
            SourceSite site) override;
  void fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite site) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  // `task` may declare host memory only: a host thread can't reach a device's.
  Ticket host_task(const HostTask& task) override;
  void wait(Ticket ticket) override;
  void abort(Error error) override;
  Status synchronize() override;
  void reset() override;

 private:
  struct TaskRun;
  struct CopyJob;

  void submit(const Launch& launch) override;

  bool failed() const { return operations_->draining(); }
  // Fails the stream if it is this point's turn.
  bool fails_at(FaultPoint point, const char* what);
  void queue(const char* name, std::vector<MemoryRecord*> uses, std::function<void(const Stamp&)> run,
             bool indirect = false);
  void queue_wait(const char* name, std::shared_ptr<Completion> completion, std::function<void()> after);

  // Notes an access of `strand`; the race that it makes, if any. Holds the mutex of the order.
  std::optional<std::string> note(Strand& strand, const Range& range, const char* what, SourceSite site) const;
  void abort_for(std::string race);

  void run_launch(const Launch& launch, const Stamp& queued);
  std::optional<std::string> begin_launch(const Launch& launch, const Stamp& queued);
  void run_copy(const CopyJob& job, const Stamp& queued);
  void run_fill(const Range& range, SourceSite site, const Stamp& queued);
  void start_task(const std::shared_ptr<TaskRun>& run, const Stamp& queued);
  void run_task(TaskRun& run, const Stamp& forked);
  std::optional<std::string> note_task(const HostTask& task);
  int64_t copy_end_ns(const CopyJob& job, int64_t ready_ns);
  // Waits until the lane has done or drained what is queued on it.
  void reach_end(Lane& lane, Strand& strand);

  SimDevice& sim_device_;
  Core& core_;
  host::Compute compute_;
  Strand* strand_;        // of its operations
  Strand* tasks_strand_;  // of its host tasks
  // Guarded by the mutex of the schedule.
  std::optional<Error> error_;
  int last_ticket_ = -1;
  std::unordered_map<int, std::shared_ptr<TaskRun>> tasks_;  // those that a wait may ask for
  std::unique_ptr<Lane> operations_, host_tasks_;
};

}  // namespace strata::device::sim
