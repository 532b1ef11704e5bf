// A CUDA device: its memory, its workspace, and how it is lost.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/cuda/commands.h"
#include "device/cuda/cuda.h"

namespace strata::device::cuda {

class CudaStream;

// Memory is allocated by one thread; streams and events are used by any.
class CudaDevice final : public Gpu {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(int ordinal, const GpuOptions& options);
  ~CudaDevice() override;

  const std::string& name() const override { return name_; }
  uint64_t budget_bytes() const override { return budget_bytes_; }
  uint64_t used_bytes() const override { return used_bytes_.load(); }
  uint64_t host_bytes() const override { return host_bytes_.load(); }
  uint64_t n_allocations() const override { return n_allocations_.load(); }
  double memory_bytes_per_second() const override { return memory_bytes_per_second_; }
  Result<double> measure_node_seconds() override;
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, std::string name) override;
  Result<std::unique_ptr<HostBuffer>> allocate_host(size_t bytes, MemoryKind kind, std::string name) override;
  Result<std::unique_ptr<const HostBuffer>> page_lock(std::span<const std::byte> range, MappedAs mapped,
                                                      std::string name) override;
  std::unique_ptr<Stream> make_stream(std::string name) override;
  std::unique_ptr<Event> make_event() override;
  Result<std::unique_ptr<Graph>> capture(const std::function<void(Stream&)>& enqueue) override;
  bool host_accessible() const override { return false; }
  // Other CUDA devices that the driver lets it reach. The first call for a device opens the way.
  bool reaches(const Device& other) const override;

  // Makes it the device of the calling thread, as calls that queue work need it.
  void make_current() const;
  // For a stream of this device.
  Commands commands(cudaStream_t stream) const;
  // The last one that a capture has grown; null before one needed any.
  const std::shared_ptr<Workspace>& workspace() const { return workspace_; }
  const StreamMemoryOps& memory_ops() const { return memory_ops_; }

  // Before `stream` queues what uses the workspace: what another stream has queued with it comes first.
  Status take_workspace(CudaStream& stream);
  // The stream ends; nothing of it runs any more.
  void leave_workspace(const CudaStream& stream);

  // After a fault of the device nothing of this process can use it. The first fault stays.
  void lose(Error error);
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  Status health() const;

 private:
  template <class M>
  class Owned;
  class Locked;

  explicit CudaDevice(int ordinal);
  Status read_attributes();
  Status try_memory_ops();
  Status take_budget(const GpuOptions& options);
  Status grow_workspace(size_t bytes);
  bool open_way_to(int peer) const;

  int ordinal_;
  std::string name_;
  uint64_t budget_bytes_ = 0;
  std::atomic<uint64_t> used_bytes_{0}, host_bytes_{0}, locked_bytes_{0}, n_allocations_{0};
  bool locks_read_only_ = false;  // pages that are mapped read-only
  bool peer_copies_ = true;
  double memory_bytes_per_second_ = 0;
  OpContext context_;  // without stream and workspace
  StreamMemoryOps memory_ops_;
  cudaStream_t capture_stream_ = nullptr;
  std::shared_ptr<Workspace> workspace_;

  mutable Mutex mutex_;  // guards the rest
  CudaStream* workspace_user_ = nullptr;
  cudaEvent_t workspace_free_ = nullptr;
  mutable std::vector<std::pair<int, bool>> peers_;  // devices that were asked about, and whether it reaches them
  Error fault_;
  std::atomic<bool> lost_{false};
};

}  // namespace strata::device::cuda
