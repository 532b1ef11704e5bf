// What streams and captures queue on a stream of the runtime.
#pragma once

#include <memory>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/runtime.h"
#include "device/cuda/task_queue.h"
#include "device/launch.h"

namespace strata::device::cuda {

// Words that host and device see, in pinned memory.
struct Signals {
  TaskWords tasks;
  alignas(128) std::atomic<uint32_t> progress{0};  // number of the last operation of a stream that is done
};

class MappedSignals {
 public:
  static Result<std::unique_ptr<MappedSignals>> create();
  ~MappedSignals();
  MappedSignals(const MappedSignals&) = delete;
  MappedSignals& operator=(const MappedSignals&) = delete;

  Signals& host() const { return *host_; }
  // Of a word of host(), for the device.
  CUdeviceptr device_address(const std::atomic<uint32_t>& word) const;

 private:
  MappedSignals(Signals* host, CUdeviceptr device) : host_(host), device_(device) {}
  Signals* host_;
  CUdeviceptr device_;
};

// Scratch of operations, which graphs hold on to.
class Workspace {
 public:
  static Result<std::shared_ptr<Workspace>> create(size_t bytes, const std::string& device);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  Workspace(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  void* address_;
  size_t bytes_;
};

// One stream of the runtime, which is the caller's. Its device is current.
class Commands {
 public:
  Commands(const OpContext& context, const StreamMemoryOps& memory_ops) : context_(context), memory_ops_(memory_ops) {}

  // `workspace` is null for operations that take none.
  Status run(const Launch& launch, const Workspace* workspace) const;
  Status copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes) const;
  Status fill_zero(Memory& dst, size_t offset, size_t bytes) const;

  // The stream writes `value` to a word once all before is done, and waits until a word has reached a value. Where the
  // driver has no operations for it, host functions do: a word is then counted up by one, whatever the value, and a
  // wait is for all tasks that the stream has asked for until then.
  Status signal(const MappedSignals& signals, std::atomic<uint32_t>& word, uint32_t value) const;
  Status await_done(const MappedSignals& signals, uint32_t number) const;
  // The same by kernels, where there are operations for it: between kernels they are quicker.
  Status raise(const MappedSignals& signals, std::atomic<uint32_t>& word, uint32_t value) const;
  Status await_raised(const MappedSignals& signals, uint32_t number) const;

  cudaStream_t stream() const { return context_.stream; }
  size_t workspace_bytes(const Launch& launch) const;

 private:
  OpContext context_;
  StreamMemoryOps memory_ops_;
};

}  // namespace strata::device::cuda
