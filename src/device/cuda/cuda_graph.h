// Graphs of a CUDA device: captured from a recording, replayed with one call.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/recording.h"

namespace strata::device::cuda {

// Replayed on one stream at a time: the next stream waits until the last one is idle. Its end waits for all of its
// host tasks.
class CudaGraph final : public Graph {
 public:
  // Captures what the recording queues, with `workspace` for its operations (null: they take none).
  static Result<std::unique_ptr<CudaGraph>> capture(CudaDevice& device, const Commands& commands, Recording& recording,
                                                    std::shared_ptr<Workspace> workspace);
  ~CudaGraph() override;

  void replay(Stream& stream) override;
  size_t size() const override { return n_operations_; }
  size_t n_nodes() const override { return n_nodes_; }

  bool uses_workspace() const { return workspace_ != nullptr; }
  cudaGraphExec_t handle() const { return executable_; }
  // In the order in which the graph asks for them.
  std::span<const TaskRequest> tasks() const { return tasks_; }

 private:
  class CaptureStream;

  explicit CudaGraph(CudaDevice& device) : device_(device) {}
  Status instantiate(cudaGraph_t graph, cudaStream_t stream);

  CudaDevice& device_;
  std::shared_ptr<Workspace> workspace_;
  std::unique_ptr<MappedSignals> signals_;
  std::vector<TaskRequest> tasks_;
  size_t n_operations_ = 0, n_nodes_ = 0;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace strata::device::cuda
