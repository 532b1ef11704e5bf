#include "device/cuda/commands.h"

#include <new>
#include <thread>

#include "base/format.h"
#include "kernels/cuda/flags.h"

namespace strata::device::cuda {
namespace {

void CUDART_CB count_up(void* word) { static_cast<std::atomic<uint32_t>*>(word)->fetch_add(1); }

void CUDART_CB wait_until_done(void* tasks) {
  const auto& words = *static_cast<const TaskWords*>(tasks);
  while (!reached(words.done.load(std::memory_order_acquire), words.requested.load())) std::this_thread::yield();
}

Status check_driver(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) [[likely]]
    return {};
  return Error{ErrorCode::kInternal,
               format("{} for a host task: error {} of the driver", call, static_cast<int>(code))};
}

}  // namespace

Result<std::unique_ptr<MappedSignals>> MappedSignals::create() {
  void* host = nullptr;
  void* device = nullptr;
  RETURN_IF_ERROR(CUDA_CALL(cudaHostAlloc, "signals of a stream", &host, sizeof(Signals),
                            cudaHostAllocMapped | cudaHostAllocPortable));
  if (Status status = CUDA_CALL(cudaHostGetDevicePointer, "signals of a stream", &device, host, 0); !status.ok()) {
    cudaFreeHost(host);
    return std::move(status).error();
  }
  return std::unique_ptr<MappedSignals>(new MappedSignals(new (host) Signals, reinterpret_cast<CUdeviceptr>(device)));
}

MappedSignals::~MappedSignals() { cudaFreeHost(host_); }

CUdeviceptr MappedSignals::device_address(const std::atomic<uint32_t>& word) const {
  const auto offset = reinterpret_cast<const std::byte*>(&word) - reinterpret_cast<const std::byte*>(host_);
  ASSERT(offset >= 0 && static_cast<size_t>(offset) < sizeof(Signals));
  return device_ + static_cast<CUdeviceptr>(offset);
}

Result<std::shared_ptr<Workspace>> Workspace::create(size_t bytes, const std::string& device) {
  void* address = nullptr;
  if (Status status = CUDA_CALL(cudaMalloc, "the workspace", &address, bytes); !status.ok()) {
    return Error{status.error().code, format("{} for the workspace of operations on {} are not there ({}); give it "
                                             "more --vram-reserve-mib",
                                             format_bytes(bytes), device, status.error().message)};
  }
  return std::shared_ptr<Workspace>(new Workspace(address, bytes));
}
Workspace::~Workspace() { cudaFree(address_); }

Status Commands::run(const Launch& launch, const Workspace* workspace) const {
  OpContext context = context_;
  if (workspace != nullptr) {
    context.workspace = workspace->address();
    context.workspace_bytes = workspace->bytes();
  }
  op_row(launch.op).run(launch.args, context);
  return check_call(cudaGetLastError(), "the launch of kernels", launch.name);
}

size_t Commands::workspace_bytes(const Launch& launch) const {
  return op_row(launch.op).workspace_bytes(launch.args, context_);
}

Status Commands::copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes) const {
  ASSERT(dst.holds(dst_offset, bytes));
  ASSERT(src.holds(src_offset, bytes));
  if (bytes == 0) return {};
  return CUDA_CALL(cudaMemcpyAsync, dst.name(), dst.address() + dst_offset, src.address() + src_offset, bytes,
                   cudaMemcpyDefault, stream());
}

Status Commands::fill_zero(Memory& dst, size_t offset, size_t bytes) const {
  ASSERT(dst.holds(offset, bytes));
  if (bytes == 0) return {};
  return CUDA_CALL(cudaMemsetAsync, dst.name(), dst.address() + offset, 0, bytes, stream());
}

Status Commands::signal(const MappedSignals& signals, std::atomic<uint32_t>& word, uint32_t value) const {
  if (!memory_ops_.available()) return CUDA_CALL(cudaLaunchHostFunc, "a host task", stream(), count_up, &word);
  return check_driver(memory_ops_.write(stream(), signals.device_address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT),
                      "cuStreamWriteValue32");
}

Status Commands::await_done(const MappedSignals& signals, uint32_t number) const {
  if (!memory_ops_.available()) {
    return CUDA_CALL(cudaLaunchHostFunc, "a host task", stream(), wait_until_done, &signals.host().tasks);
  }
  return check_driver(
      memory_ops_.wait(stream(), signals.device_address(signals.host().tasks.done), number, CU_STREAM_WAIT_VALUE_GEQ),
      "cuStreamWaitValue32");
}

Status Commands::raise(const MappedSignals& signals, std::atomic<uint32_t>& word, uint32_t value) const {
  if (!memory_ops_.available()) return signal(signals, word, value);
  kernels::cuda::launch_raise(reinterpret_cast<uint32_t*>(signals.device_address(word)), value, stream());
  return check_call(cudaGetLastError(), "the launch of a kernel", "a host task");
}

Status Commands::await_raised(const MappedSignals& signals, uint32_t number) const {
  if (!memory_ops_.available()) return await_done(signals, number);
  const auto* word = reinterpret_cast<const uint32_t*>(signals.device_address(signals.host().tasks.done));
  kernels::cuda::launch_await(word, number, stream());
  return check_call(cudaGetLastError(), "the launch of a kernel", "a host task");
}

}  // namespace strata::device::cuda
