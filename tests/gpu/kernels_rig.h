// Runs operations of test cases with the kernels of a GPU, on memory that the host reads in place: buffers of a host
// device whose pages are locked and mapped for the GPU. What is tested are the kernels and how operations launch them,
// without the streams, graphs and memory of the CUDA device.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "device/cuda/cuda_ops.h"
#include "device/op_checks.h"
#include "device/recording.h"

namespace strata::test {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

class GpuRig {
 public:
  explicit GpuRig(bool deterministic = false) {
    cudaDeviceProp properties{};
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreate(&context_.stream), cudaSuccess);
    context_.n_sms = properties.multiProcessorCount;
    context_.compute_capability = 10 * properties.major + properties.minor;
    context_.max_shared_bytes = properties.sharedMemPerBlockOptin;
    context_.deterministic = deterministic;
  }
  ~GpuRig() {
    for (void* page : pages_) cudaHostUnregister(page);
    cudaFree(context_.workspace);
    cudaStreamDestroy(context_.stream);
  }
  GpuRig(const GpuRig&) = delete;
  GpuRig& operator=(const GpuRig&) = delete;

  // Device of the buffers of cases; they have to die before the rig.
  device::host::HostDevice& host() { return host_; }

  // Launches what the case enqueues, through a graph if wanted, and waits for it.
  void run(const OpCase& c, bool through_graph) {
    for (const device::Memory* memory : c.memories()) map(*memory);
    const auto recording = device::Recording::capture(&host_, c.enqueue);
    size_t bytes = 16;
    recording->for_each_launch([&](const device::Launch& launch) {
      bytes = std::max(bytes, device::cuda::op_row(launch.op).workspace_bytes(launch.args, context_));
    });
    grow(bytes);
    const auto launch_all = [&] {
      recording->for_each_launch([&](const device::Launch& launch) {
        device::cuda::op_row(launch.op).run(launch.args, context_);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess) << c.name();
      });
    };
    if (through_graph) {
      replay(launch_all);
    } else {
      launch_all();
    }
    const cudaError_t error = cudaStreamSynchronize(context_.stream);
    ASSERT_EQ(error, cudaSuccess) << c.name() << ": " << cudaGetErrorString(error);
  }

  // Fills, runs and checks a case; what it wanted.
  std::vector<Want> check(const OpCase& c, uint64_t seed, bool through_graph) {
    Random random(seed);
    c.fill(random);
    const std::vector<Want> wants = c.expect();
    EXPECT_FALSE(wants.empty());
    const auto before = c.snapshot();
    run(c, through_graph);
    expect_values(c, wants);
    expect_rest_untouched(c, wants, before);
    return wants;
  }

 private:
  template <class Launch>
  void replay(const Launch& launch_all) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launch_all();
    ASSERT_EQ(cudaStreamEndCapture(context_.stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(ready, context_.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(context_.stream), cudaSuccess);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
  }

  // Maps the pages of a buffer that are not yet; buffers share pages.
  void map(const device::Memory& memory) {
    constexpr uintptr_t kPage = 4096;
    const auto begin = reinterpret_cast<uintptr_t>(memory.address()) / kPage * kPage;
    const auto end = reinterpret_cast<uintptr_t>(memory.address()) + memory.bytes();
    for (uintptr_t page = begin; page < end; page += kPage) {
      if (!pages_.insert(reinterpret_cast<void*>(page)).second) continue;
      ASSERT_EQ(cudaHostRegister(reinterpret_cast<void*>(page), kPage, cudaHostRegisterDefault), cudaSuccess);
    }
  }
  void grow(size_t bytes) {
    if (bytes > context_.workspace_bytes) {
      cudaFree(context_.workspace);
      ASSERT_EQ(cudaMalloc(&context_.workspace, bytes), cudaSuccess);
      context_.workspace_bytes = bytes;
    }
    // What an operation reads of it without having written it shows.
    ASSERT_EQ(cudaMemset(context_.workspace, 0xFF, context_.workspace_bytes), cudaSuccess);
  }

  device::host::HostDevice host_{host_options(1, 1024 * kMiB)};
  device::cuda::OpContext context_;
  std::set<void*> pages_;
};

// Wants for float grids: what the operation makes of the same inputs on the host, off by at most tolerance(row, value).
// The inputs are put back.
template <class Tolerance>
std::vector<Want> wants_of_host(device::host::HostDevice& device, const OpCase& c, const Grid<float>& out,
                                const std::vector<int64_t>& rows, const Tolerance& tolerance) {
  const auto before = c.snapshot();
  EXPECT_TRUE(device.capture(c.enqueue).ok());
  const auto stream = device.make_stream("reference");
  c.enqueue(*stream);
  EXPECT_TRUE(stream->synchronize().ok());
  std::vector<Want> wants;
  for (const int64_t r : rows) {
    for (int64_t i = 0; i < out.cols(); i++) {
      const double value = out.at(r, i);
      wants.push_back({&out.at(r, i), value, tolerance(r, i)});
    }
  }
  for (size_t m = 0; m < before.size(); m++)
    std::memcpy(c.memories()[m]->address(), before[m].data(), before[m].size());
  return wants;
}

// Wants for int grids: exactly what the operation makes of the same inputs on the host. The inputs are put back.
inline std::vector<Want> wants_of_host_ints(device::host::HostDevice& device, const OpCase& c,
                                            const Grid<int32_t>& out, const std::vector<int64_t>& rows) {
  const auto before = c.snapshot();
  EXPECT_TRUE(device.capture(c.enqueue).ok());
  const auto stream = device.make_stream("reference");
  c.enqueue(*stream);
  EXPECT_TRUE(stream->synchronize().ok());
  std::vector<Want> wants;
  for (const int64_t r : rows) {
    for (int64_t i = 0; i < out.cols(); i++) {
      wants.push_back({&out.at(r, i), static_cast<double>(out.at(r, i)), 0, Want::Kind::kI32});
    }
  }
  for (size_t m = 0; m < before.size(); m++)
    std::memcpy(c.memories()[m]->address(), before[m].data(), before[m].size());
  return wants;
}

}  // namespace strata::test
