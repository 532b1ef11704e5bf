// What an engine computes on: the host, and the devices that --device names.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/cuda.h"
#include "device/host/host_device.h"
#include "device/sim/machine.h"
#include "engine/config.h"
#include "engine/placing.h"

namespace strata::engine {

// Owns the devices: what belongs to one of them dies before this.
class Devices {
 public:
  // The host may use `ram_bytes`. kBadInput or kUnsupported when the settings name devices that can't be had, kNoMemory
  // when a GPU has none left.
  static Result<std::unique_ptr<Devices>> open(const EngineConfig& config, uint64_t ram_bytes);

  device::host::HostDevice& host() { return *host_; }
  // Those that compute layers, as they are named, at least one; on cpu it is the host.
  std::span<device::Device* const> computing() const { return computing_; }
  // What a plan is made from, in the order of computing(); the host's budget is `ram_bytes`.
  std::vector<PlannedDevice> planned(uint64_t ram_bytes) const;
  // Whether all of them reach each other's memory.
  bool peers() const;
  // At which the host reads memory to compute experts.
  double cpu_bytes_per_s() const;
  bool simulated() const { return machine_ != nullptr; }
  // RAM that is handed out: by the host, and as host memory of devices.
  uint64_t host_bytes() const;
  // Times that devices with memory of their own took some, there or of the host.
  uint64_t n_allocations() const;
  // Of the simulated machine, if there is one; else real time.
  int64_t now_ns();
  // What has gone wrong that no stream can have shown.
  Status health();

 private:
  Devices() = default;
  Status open_simulated(const EngineConfig& config, const kernels::Kernels& kernels);
  Status open_gpus(const EngineConfig& config);

  std::unique_ptr<device::host::HostDevice> host_;
  std::unique_ptr<device::sim::SimMachine> machine_;  // null where none is simulated
  std::vector<std::unique_ptr<device::cuda::Gpu>> gpus_;
  std::vector<DeviceRates> rates_;  // [computing] what layers are shared out by
  std::vector<device::Device*> computing_;
};

// A GPU as settings name it.
struct NamedGpu {
  int ordinal = 0;
  std::optional<uint64_t> limit_bytes;  // of its memory; absent: all of it
};

// What --device and --vram-budget-gib name. kBadInput for what they can't mean, and for a GPU that is named more than
// once (so that a split can be tried where there is no other) without budgets that share its memory out.
Result<std::vector<NamedGpu>> named_gpus(const std::string& device, const std::string& budgets);

// What layers are shared out by: the rate of the GPU's memory as its driver says, that of its link as measured; what is
// 0 is not known.
DeviceRates gpu_rates(const device::cuda::Gpu& gpu, double link_bytes_per_s);

// What --vram-budget-gib says for each of so many devices, in bytes: UINT64_MAX where it is empty; one number stands
// for all. kBadInput says what is wanted.
Result<std::vector<uint64_t>> device_limits(const std::string& text, size_t n_devices);

}  // namespace strata::engine
