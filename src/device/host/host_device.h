// The host as a device: CPU kernels on the thread pool; a stream runs each operation at once, on the calling thread.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "device/host/compute.h"

namespace strata::device::host {

struct HostDeviceOptions {
  uint64_t budget_bytes = 0;  // memory it may hand out
  ThreadPoolOptions threads;
  const kernels::Kernels* kernels = nullptr;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options);
  ~HostDevice() override;

  const std::string& name() const override { return name_; }
  uint64_t budget_bytes() const override { return budget_bytes_; }
  uint64_t used_bytes() const override { return used_bytes_; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, std::string name) override;
  Result<std::unique_ptr<HostBuffer>> allocate_host(size_t bytes, MemoryKind kind, std::string name) override;
  // All of its memory is read when a copy runs, page-locked or not: this locks nothing.
  Result<std::unique_ptr<const HostBuffer>> page_lock(std::span<const std::byte> range, MappedAs mapped,
                                                      std::string name) override;
  std::unique_ptr<Stream> make_stream(std::string name) override;
  std::unique_ptr<Event> make_event() override;
  Result<std::unique_ptr<Graph>> capture(const std::function<void(Stream&)>& enqueue) override;
  bool host_accessible() const override { return true; }

  Compute& compute() { return compute_; }

 private:
  class AddressRange;
  template <class M>
  class Owned;
  template <class M>
  Result<std::unique_ptr<M>> make(size_t bytes, MemoryKind kind, std::string name);

  std::string name_ = "cpu";
  uint64_t budget_bytes_;
  std::shared_ptr<AddressRange> shared_range_;  // what the next small buffer is cut from
  uint64_t used_bytes_ = 0;  // one thread allocates: the one that owns the engine
  Compute compute_;
};

}  // namespace strata::device::host
