// What a graph's nodes cost beside their work.
#include <algorithm>
#include <array>

#include "device/cuda/cuda_device.h"
#include "device/cuda/runtime.h"
#include "kernels/cuda/launch.h"

namespace strata::device::cuda {
namespace {

constexpr int kNodes = 1000;
constexpr int kReplays = 9;

// Owns what a measurement makes.
struct Measurement {
  cudaStream_t stream = nullptr;
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t graph = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;

  ~Measurement() {
    if (end != nullptr) cudaEventDestroy(end);
    if (begin != nullptr) cudaEventDestroy(begin);
    if (graph != nullptr) cudaGraphExecDestroy(graph);
    if (captured != nullptr) cudaGraphDestroy(captured);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  Status prepare() {
    static constexpr const char* kWhat = "a graph of empty kernels";
    RETURN_IF_ERROR(CUDA_CALL(cudaStreamCreateWithFlags, kWhat, &stream, cudaStreamNonBlocking));
    RETURN_IF_ERROR(CUDA_CALL(cudaEventCreate, kWhat, &begin));
    RETURN_IF_ERROR(CUDA_CALL(cudaEventCreate, kWhat, &end));
    RETURN_IF_ERROR(CUDA_CALL(cudaStreamBeginCapture, kWhat, stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kNodes; i++) kernels::cuda::launch_nothing(stream);
    RETURN_IF_ERROR(CUDA_CALL(cudaStreamEndCapture, kWhat, stream, &captured));
    return CUDA_CALL(cudaGraphInstantiate, kWhat, &graph, captured, 0);
  }

  Result<double> replay_seconds() {
    static constexpr const char* kWhat = "a replay of empty kernels";
    RETURN_IF_ERROR(CUDA_CALL(cudaEventRecord, kWhat, begin, stream));
    RETURN_IF_ERROR(CUDA_CALL(cudaGraphLaunch, kWhat, graph, stream));
    RETURN_IF_ERROR(CUDA_CALL(cudaEventRecord, kWhat, end, stream));
    RETURN_IF_ERROR(CUDA_CALL(cudaEventSynchronize, kWhat, end));
    float ms = 0;
    RETURN_IF_ERROR(CUDA_CALL(cudaEventElapsedTime, kWhat, &ms, begin, end));
    return double{ms} / 1e3;
  }
};

}  // namespace

// The median of replays, the first of which raise the device's clock.
Result<double> CudaDevice::measure_node_seconds() {
  make_current();
  Measurement measurement;
  RETURN_IF_ERROR(measurement.prepare());
  std::array<double, kReplays> seconds{};
  for (double& of_replay : seconds) {
    ASSIGN_OR_RETURN(of_replay, measurement.replay_seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kReplays / 2] / kNodes;
}

}  // namespace strata::device::cuda
