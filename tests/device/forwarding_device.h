// A device that does what another one does, for tests that change one thing of it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device/device.h"

namespace strata::test {

// Outlived by `inner`. Its streams and buffers are those of `inner`, so operations on views of them are inner's too.
class ForwardingDevice : public device::Device {
 public:
  explicit ForwardingDevice(device::Device& inner) : inner_(inner) {}
  const std::string& name() const override { return inner_.name(); }
  uint64_t budget_bytes() const override { return inner_.budget_bytes(); }
  uint64_t used_bytes() const override { return inner_.used_bytes(); }
  Result<std::unique_ptr<device::Buffer>> allocate(size_t bytes, std::string name) override {
    return inner_.allocate(bytes, std::move(name));
  }
  Result<std::unique_ptr<device::HostBuffer>> allocate_host(size_t bytes, device::MemoryKind kind,
                                                            std::string name) override {
    return inner_.allocate_host(bytes, kind, std::move(name));
  }
  Result<std::unique_ptr<const device::HostBuffer>> page_lock(std::span<const std::byte> range, device::MappedAs mapped,
                                                              std::string name) override {
    return inner_.page_lock(range, mapped, std::move(name));
  }
  std::unique_ptr<device::Stream> make_stream(std::string name) override { return inner_.make_stream(std::move(name)); }
  std::unique_ptr<device::Event> make_event() override { return inner_.make_event(); }
  Result<std::unique_ptr<device::Graph>> capture(const std::function<void(device::Stream&)>& enqueue) override {
    return inner_.capture(enqueue);
  }
  bool host_accessible() const override { return inner_.host_accessible(); }
  device::Device& inner() { return inner_; }

 private:
  device::Device& inner_;
};

}  // namespace strata::test
