#include "device/cuda/runtime.h"

#include "base/format.h"

namespace strata::device::cuda {
namespace {

// cuStreamWriteValue32 and cuStreamWaitValue32 mean their second versions from this version of the driver's interface
// on.
constexpr unsigned kInterfaceVersion = 12000;

template <class Function>
void find(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &address, kInterfaceVersion, cudaEnableDefault, &found);
  if (code == cudaSuccess && found == cudaDriverEntryPointSuccess) function = reinterpret_cast<Function>(address);
}

}  // namespace

Error call_error(cudaError_t code, std::string_view call, std::string_view purpose) {
  const ErrorCode kind = code == cudaErrorMemoryAllocation ? ErrorCode::kNoMemory : ErrorCode::kInternal;
  return {kind, format("{} for {}: {} ({})", call, purpose, cudaGetErrorString(code), cudaGetErrorName(code))};
}

StreamMemoryOps find_stream_memory_ops() {
  StreamMemoryOps ops;
  find("cuStreamWriteValue32", ops.write);
  find("cuStreamWaitValue32", ops.wait);
  return ops;
}

}  // namespace strata::device::cuda
