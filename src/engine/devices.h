// What an engine computes on: the host, and the devices that --device names.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/host/host_device.h"
#include "device/sim/machine.h"
#include "engine/config.h"

namespace strata::engine {

// Owns the devices: what belongs to one of them dies before this.
class Devices {
 public:
  // The host may use `ram_bytes`. kBadInput or kUnsupported when the settings name devices that can't be had.
  static Result<std::unique_ptr<Devices>> open(const EngineConfig& config, uint64_t ram_bytes);

  device::host::HostDevice& host() { return *host_; }
  // Those that compute layers, as they are named, at least one; on cpu it is the host.
  std::span<device::Device* const> computing() const { return computing_; }
  // RAM that is handed out: by the host, and as host memory of devices.
  uint64_t host_bytes() const;
  // What has gone wrong that no stream can have shown.
  Status health();

 private:
  Devices() = default;

  std::unique_ptr<device::host::HostDevice> host_;
  std::unique_ptr<device::sim::SimMachine> machine_;  // null where none is simulated
  std::vector<device::Device*> computing_;
};

}  // namespace strata::engine
