// The devices that tests of experts run on: the host, and a simulated one whose memory host code cannot touch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/sim/machine.h"
#include "device/support.h"

namespace strata::test {

enum class Where { kHost, kSim };
inline const char* where_name(Where where) { return where == Where::kHost ? "Host" : "Sim"; }

// One device, and a host device beside it for RAM and the CPU's computing.
class TestDevice {
 public:
  explicit TestDevice(Where where, int threads = 1, const std::string& sim_spec = "sim:64MiB/seed=5")
      : host_(host_options(threads)) {
    if (where == Where::kSim) {
      device::sim::SimOptions options;
      options.kernels = &host_.compute().kernels();
      machine_ = device::sim::make_sim(sim_spec, options).value();
    }
  }
  device::Device& device() { return machine_ ? static_cast<device::Device&>(machine_->device(0)) : host_; }
  device::host::HostDevice& host() { return host_; }
  // Null on the host.
  device::sim::SimMachine* machine() { return machine_.get(); }
  // Accesses that no order of streams and events covers.
  std::vector<std::string> races() { return machine_ ? machine_->races() : std::vector<std::string>(); }

 private:
  device::host::HostDevice host_;
  std::unique_ptr<device::sim::SimMachine> machine_;
};

// Moves values between a test and a device's memory, through pinned memory of the device.
template <class T>
void upload(device::Stream& stream, device::Memory& to, const std::vector<T>& values) {
  if (values.empty()) return;
  const size_t bytes = values.size() * sizeof(T);
  const auto pinned = stream.device()->allocate_host(bytes, device::MemoryKind::kPinned, "upload").value();
  std::memcpy(pinned->write<T>(0, values.size()).span().data(), values.data(), bytes);
  stream.copy(to, 0, *pinned, 0, bytes);
  const Status done = stream.synchronize();
  ASSERT(done.ok());
}
template <class T>
std::vector<T> download(device::Stream& stream, const device::Memory& from, size_t offset, size_t n) {
  if (n == 0) return {};
  const auto pinned = stream.device()->allocate_host(n * sizeof(T), device::MemoryKind::kPinned, "download").value();
  stream.copy(*pinned, 0, from, offset, n * sizeof(T));
  const Status done = stream.synchronize();
  ASSERT(done.ok());
  const auto guard = pinned->read<T>(0, n);
  return {guard.span().begin(), guard.span().end()};
}

}  // namespace strata::test
