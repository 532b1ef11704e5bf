#include "device/cuda/cuda_graph.h"

#include "base/format.h"
#include "device/cuda/cuda_stream.h"

namespace strata::device::cuda {

// Queues on a stream of the runtime that captures. The first failure is kept; what follows it is left out.
class CudaGraph::CaptureStream final : public Stream {
 public:
  CaptureStream(CudaGraph& graph, const Commands& commands)
      : Stream(&graph.device_, "capture"), graph_(graph), commands_(commands) {}

  void copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes, SourceSite) override {
    // Their bytes are taken when a copy is queued, and a graph is queued without the host.
    ASSERT(src.kind() != MemoryKind::kPageable);
    ASSERT(dst.kind() != MemoryKind::kPageable);
    if (status_.ok()) status_ = commands_.copy(dst, dst_offset, src, src_offset, bytes);
  }
  void fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite) override {
    if (status_.ok()) status_ = commands_.fill_zero(dst, offset, bytes);
  }
  // Others outside the graph may wait for its events, and it for theirs.
  void record(Event& event) override {
    if (status_.ok()) {
      status_ = CUDA_CALL(cudaEventRecordWithFlags, "an event of a graph", static_cast<CudaEvent&>(event).handle(),
                          commands_.stream(), cudaEventRecordExternal);
    }
  }
  void wait(const Event& event) override {
    if (status_.ok()) {
      status_ = CUDA_CALL(cudaStreamWaitEvent, "an event of a graph", commands_.stream(),
                          static_cast<const CudaEvent&>(event).handle(), cudaEventWaitExternal);
    }
  }
  Ticket host_task(const HostTask& task) override {
    const auto number = static_cast<uint32_t>(graph_.tasks_.size() + 1);
    TaskWords& words = graph_.signals_->host().tasks;
    graph_.tasks_.push_back({.task = &task, .words = &words, .number = number, .of_graph = true});
    if (status_.ok()) status_ = commands_.raise(*graph_.signals_, words.requested, number);
    return {static_cast<int>(number)};
  }
  void wait(Ticket ticket) override {
    ASSERT(ticket.index > 0 && static_cast<size_t>(ticket.index) <= graph_.tasks_.size());
    graph_.tasks_[static_cast<size_t>(ticket.index) - 1].awaited = true;
    if (status_.ok()) status_ = commands_.await_raised(*graph_.signals_, static_cast<uint32_t>(ticket.index));
  }
  void abort(Error) override {}
  Status synchronize() override { return {}; }
  void reset() override {}

  // All tasks are over before the graph is, and the next replay begins with numbers from 1.
  Status finish() {
    if (graph_.tasks_.empty() || !status_.ok()) return status_;
    if (graph_.tasks_.size() > TaskQueue::kCapacity) {
      return Error{ErrorCode::kUnsupported,
                   format("{} host tasks are more than the {} that a graph can have; --graph off does without",
                          graph_.tasks_.size(), TaskQueue::kCapacity)};
    }
    graph_.tasks_.back().last = true;
    RETURN_IF_ERROR(commands_.await_done(*graph_.signals_, static_cast<uint32_t>(graph_.tasks_.size())));
    return commands_.signal(*graph_.signals_, graph_.signals_->host().tasks.done, 0);
  }

 private:
  void submit(const Launch& launch) override {
    if (status_.ok()) status_ = commands_.run(launch, graph_.workspace_.get());
  }

  CudaGraph& graph_;
  const Commands& commands_;
  Status status_;
};

Result<std::unique_ptr<CudaGraph>> CudaGraph::capture(CudaDevice& device, const Commands& commands,
                                                      Recording& recording, std::shared_ptr<Workspace> workspace) {
  std::unique_ptr<CudaGraph> graph(new CudaGraph(device));
  graph->workspace_ = std::move(workspace);
  graph->n_operations_ = recording.size();
  ASSIGN_OR_RETURN(graph->signals_, MappedSignals::create());
  CaptureStream stream(*graph, commands);
  RETURN_IF_ERROR(CUDA_CALL(cudaStreamBeginCapture, "a graph", commands.stream(), cudaStreamCaptureModeThreadLocal));
  recording.replay(stream);
  Status status = stream.finish();
  // The capture ends whether it has failed or not.
  cudaGraph_t captured = nullptr;
  Status ended = CUDA_CALL(cudaStreamEndCapture, "a graph", commands.stream(), &captured);
  if (status.ok()) status = std::move(ended);
  if (status.ok()) status = graph->instantiate(captured, commands.stream());
  if (captured != nullptr) cudaGraphDestroy(captured);
  if (status.ok()) return graph;
  cudaGetLastError();  // it is told here, and must not be taken for that of a launch
  return Error{status.error().code, format("a graph of {} operations can't be made on {}: {}", recording.size(),
                                           device.name(), status.error().message)};
}

// What the device needs of it is there before the first replay.
Status CudaGraph::instantiate(cudaGraph_t graph, cudaStream_t stream) {
  RETURN_IF_ERROR(CUDA_CALL(cudaGraphGetNodes, "a graph", graph, nullptr, &n_nodes_));
  RETURN_IF_ERROR(CUDA_CALL(cudaGraphInstantiate, "a graph", &executable_, graph, 0));
  RETURN_IF_ERROR(CUDA_CALL(cudaGraphUpload, "a graph", executable_, stream));
  return CUDA_CALL(cudaStreamSynchronize, "a graph", stream);
}

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

void CudaGraph::replay(Stream& stream) {
  ASSERT(stream.device() == &device_);
  ASSERT(dynamic_cast<CudaStream*>(&stream) != nullptr);  // a graph is not captured into another
  static_cast<CudaStream&>(stream).replay(*this);
}

}  // namespace strata::device::cuda
