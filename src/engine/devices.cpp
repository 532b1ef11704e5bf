#include "engine/devices.h"

#include "base/topology.h"

namespace strata::engine {
namespace {

ThreadPoolOptions thread_options(const EngineConfig& config) {
  const Topology topology = read_topology();
  ThreadPoolOptions options;
  options.cpus = config.cpus.empty() ? topology.physical_cores : config.cpus;
  options.n_threads = config.threads > 0 ? config.threads : static_cast<int>(options.cpus.size());
  // More threads than cores share them as the system sees fit.
  if (options.n_threads > static_cast<int>(options.cpus.size())) options.cpus.clear();
  return options;
}

}  // namespace

Result<std::unique_ptr<Devices>> Devices::open(const EngineConfig& config, uint64_t ram_bytes) {
  std::unique_ptr<Devices> devices(new Devices);
  ASSIGN_OR_RETURN(const kernels::Kernels* kernels, kernels::select_kernels(config.isa.c_str()));
  devices->host_ = std::make_unique<device::host::HostDevice>(device::host::HostDeviceOptions{
      .budget_bytes = ram_bytes, .threads = thread_options(config), .kernels = kernels});
  if (config.device == "cpu") {
    devices->computing_.push_back(devices->host_.get());
    return devices;
  }
  device::sim::SimOptions options;
  options.kernels = kernels;
  ASSIGN_OR_RETURN(devices->machine_, device::sim::make_sim(config.device, options));
  for (int i = 0; i < devices->machine_->n_devices(); i++) {
    devices->computing_.push_back(&devices->machine_->device(i));
  }
  return devices;
}

uint64_t Devices::host_bytes() const { return host_->used_bytes() + (machine_ ? machine_->host_bytes() : 0); }

Status Devices::health() { return machine_ ? machine_->health() : Status(); }

}  // namespace strata::engine
