// What the parts of kernels_bench share: device memory as operations take it, and the clock.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "device/cuda/cuda_ops.h"
#include "kernels_weights.h"

namespace strata::test {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// Device memory as operations take it.
class Block {
 public:
  explicit Block(size_t bytes) {
    check(cudaMalloc(&address_, bytes), "cudaMalloc");
    check(cudaMemset(address_, 0, bytes), "cudaMemset");
    memory_ = std::make_unique<device::Memory>(nullptr, device::MemoryKind::kDevice, "bench",
                                               static_cast<std::byte*>(address_), bytes);
  }
  ~Block() { cudaFree(address_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  device::Memory& memory() const { return *memory_; }
  template <class T>
  device::View<T> view(int64_t rows, int64_t cols) const {
    return device::view_of<T>(*memory_, rows, cols);
  }
  template <class T>
  void set(const std::vector<T>& values, size_t offset = 0) const {
    check(cudaMemcpy(static_cast<std::byte*>(address_) + offset, values.data(), values.size() * sizeof(T),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

 private:
  void* address_ = nullptr;
  std::unique_ptr<device::Memory> memory_;
};

inline std::vector<float> normals(size_t n, Random& random) {
  std::vector<float> values(n);
  for (float& x : values) x = static_cast<float>(random.normal());
  return values;
}

class Bench {
 public:
  explicit Bench(double copy_gbps) : copy_gbps_(copy_gbps) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    check(cudaStreamCreate(&context_.stream), "cudaStreamCreate");
    context_.n_sms = properties.multiProcessorCount;
    context_.compute_capability = 10 * properties.major + properties.minor;
    context_.max_shared_bytes = properties.sharedMemPerBlockOptin;
    context_.workspace_bytes = 512 << 20;
    check(cudaMalloc(&context_.workspace, context_.workspace_bytes), "cudaMalloc");
  }

  const device::cuda::OpContext& context() const { return context_; }

  // Median microseconds of one of `nodes` nodes that enqueue(i) launches.
  double time(int nodes, const std::function<void(int)>& enqueue) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < nodes; i++) enqueue(i);
    check(cudaStreamEndCapture(context_.stream, &graph), "end of capture");
    check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    // Clocks rise only under load, and fall while the host prepares the next case.
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(80)) {
      check(cudaGraphLaunch(ready, context_.stream), "launch");
      check(cudaStreamSynchronize(context_.stream), "kernels");
    }
    std::vector<float> ms;
    for (int i = 0; i < 7; i++) {
      check(cudaEventRecord(begin, context_.stream), "record");
      check(cudaGraphLaunch(ready, context_.stream), "launch");
      check(cudaEventRecord(end, context_.stream), "record");
      check(cudaEventSynchronize(end), "kernels");
      float t = 0;
      check(cudaEventElapsedTime(&t, begin, end), "elapsed");
      ms.push_back(t);
    }
    std::sort(ms.begin(), ms.end());
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    return double{ms[ms.size() / 2]} * 1e3 / nodes;
  }

  void print(const char* what, double us, double bytes, double flops) const {
    const double gbps = bytes / us / 1e3;
    std::printf("%-44s %9.2f us %8.0f GB/s %5.1f %% %8.2f TFLOP/s\n", what, us, gbps, 100 * gbps / copy_gbps_,
                flops / us / 1e6);
  }

 private:
  double copy_gbps_;
  device::cuda::OpContext context_;
};

// The operations that only some architectures have: several streams, chosen blocks, latents.
void run_uncommon(Bench& bench);

}  // namespace strata::test
