// A simulated device: its operations are the host's kernels, run by one thread a stream, so results are those of the
// host bit for bit. Everything else is as strict as the strictest real device: memory that host code may not touch,
// copies from pinned memory that read it when they run, poison in what nobody has written.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "device/device.h"
#include "device/host/compute.h"

namespace strata::device::sim {

struct Core;

// Made by SimMachine. Calls are safe from several threads, except for compute().
class SimDevice final : public Device {
 public:
  SimDevice(Core& core, int index);
  ~SimDevice() override;

  const std::string& name() const override { return name_; }  // "sim:0"
  int index() const { return index_; }
  uint64_t budget_bytes() const override { return budget_bytes_; }
  uint64_t used_bytes() const override { return used_bytes_.load(); }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, std::string name) override;
  // Times that it took memory, of its own or of the host, since it was made.
  uint64_t n_allocations() const { return n_allocations_.load(); }
  // Host memory counts against no device's budget (SimMachine::host_bytes counts it).
  Result<std::unique_ptr<HostBuffer>> allocate_host(size_t bytes, MemoryKind kind, std::string name) override;
  Result<std::unique_ptr<const HostBuffer>> page_lock(std::span<const std::byte> range, MappedAs mapped,
                                                      std::string name) override;
  std::unique_ptr<Stream> make_stream(std::string name) override;
  std::unique_ptr<Event> make_event() override;
  Result<std::unique_ptr<Graph>> capture(const std::function<void(Stream&)>& enqueue) override;
  bool host_accessible() const override { return false; }
  bool reaches(const Device& other) const override;

  // For host tasks that compute (the experts that stay on the CPU): one thread. One task at a time may use it, so tasks
  // of different streams that run beside each other need one each.
  host::Compute& compute() { return compute_; }
  // Scratch that captured operations need, for the streams.
  int64_t scratch_floats() const { return scratch_floats_.load(); }
  Core& core() const { return core_; }

 private:
  template <class M>
  class Owned;
  class Locked;

  Core& core_;
  const int index_;
  const std::string name_;
  const uint64_t budget_bytes_;
  std::atomic<uint64_t> used_bytes_{0}, n_allocations_{0};
  std::atomic<int64_t> scratch_floats_{0};
  host::Compute compute_;
};

// The device's number when the memory lies on a device of this machine; -1 for host memory, whoever's it is.
int device_index(const Core& core, const Memory& memory);

}  // namespace strata::device::sim
