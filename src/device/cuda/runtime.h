// The CUDA runtime as the device uses it: errors as values, and the two driver functions that the runtime has no names
// for. The driver library is never linked: the runtime finds it when the program runs.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "base/result.h"

namespace strata::device::cuda {

// The error of a failed call: its name, what it was for, and what the runtime says. kNoMemory where memory was short.
Error call_error(cudaError_t code, std::string_view call, std::string_view purpose);

inline Status check_call(cudaError_t code, std::string_view call, std::string_view purpose) {
  if (code == cudaSuccess) [[likely]]
    return {};
  return call_error(code, call, purpose);
}

// CUDA_CALL(cudaMalloc, "weights", &address, bytes): a Status that names the call.
#define CUDA_CALL(function, purpose, ...) ::strata::device::cuda::check_call(function(__VA_ARGS__), #function, purpose)

// Writes to and waits for words in memory, as operations of a stream.
struct StreamMemoryOps {
  decltype(&cuStreamWriteValue32) write = nullptr;
  decltype(&cuStreamWaitValue32) wait = nullptr;
  bool available() const { return write != nullptr && wait != nullptr; }
};
// Empty where the driver has none.
StreamMemoryOps find_stream_memory_ops();

}  // namespace strata::device::cuda
