// Streams and events of a CUDA device.
//
// Work runs on the device beside the host. A failure that the host finds (a task, an abort) can't take back what the
// device was given before: that still runs, on whatever its buffers hold, and what comes after is not queued any more.
// Waits end either way, so a failed stream is idle soon.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "base/mutex.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/task_queue.h"

namespace strata::device::cuda {

class CudaGraph;

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaDevice& device);
  ~CudaEvent() override;
  // True for one that was never recorded, and on a device that is lost.
  bool done() const override;
  void synchronize() const override;
  cudaEvent_t handle() const { return handle_; }  // null on a device that is lost

 private:
  CudaDevice& device_;
  cudaEvent_t handle_ = nullptr;
};

// Several threads may queue work.
class CudaStream final : public Stream, private TaskUser {
 public:
  // Fails at once, and for good, if the device has no stream left.
  static std::unique_ptr<CudaStream> create(CudaDevice& device, std::string name);
  // Waits for what is queued.
  ~CudaStream() override;

  void copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes,
            SourceSite site) override;
  void fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite site) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  Ticket host_task(const HostTask& task) override;
  void wait(Ticket ticket) override;
  void abort(Error error) override;
  Status synchronize() override;
  void reset() override;

  void replay(const CudaGraph& graph);
  cudaStream_t handle() const { return commands_.stream(); }

 private:
  // The last operations that were queued, by number: which of them was under way when the device failed. Whoever finds
  // the failure reads them, on whatever thread.
  struct Queued {
    std::atomic<const char*> name{""};
    std::atomic<const char*> file{""};
    std::atomic<int> line{0};
  };
  static constexpr uint32_t kQueuedKept = 256;

  CudaStream(CudaDevice& device, std::string name, cudaStream_t stream, std::unique_ptr<MappedSignals> signals);
  void submit(const Launch& launch) override;

  bool draining() const override { return failed(); }
  void task_failed(Error error) override { abort(std::move(error)); }
  bool lost() const override { return device_.lost(); }
  void probe() override;

  bool failed() const { return failed_.load(std::memory_order_acquire) || device_.lost(); }
  // Of a graph that could not be launched, after its tasks were pushed.
  void withdraw(std::span<const TaskRequest> tasks);
  // Fails the stream if a call has failed. Whether it has not.
  bool check(Status status, const char* operation, SourceSite site);
  // The device has failed under this stream.
  void lose_device(cudaError_t code);
  void note(const char* operation, SourceSite site);
  std::string suspect() const;

  CudaDevice& device_;
  std::unique_ptr<MappedSignals> signals_;  // null where the stream could not be made
  Commands commands_;
  Mutex order_;  // held while work is queued, so that tasks are pushed in the order in which they will be asked for
  uint32_t n_tasks_ = 0;  // guarded by order_
  std::atomic<uint32_t> n_queued_{0};
  std::array<Queued, kQueuedKept> queued_;

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;  // guards error_
  Error error_;
  TaskQueue tasks_;
};

}  // namespace strata::device::cuda
