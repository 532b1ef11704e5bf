#include "engine/devices.h"

#include <algorithm>
#include <charconv>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/topology.h"
#include "engine/link_rates.h"
#include "engine/side_by_side.h"

namespace strata::engine {
namespace {

constexpr int64_t kBetweenLayersUs = 500;

ThreadPoolOptions thread_options(const EngineConfig& config) {
  const Topology topology = read_topology();
  ThreadPoolOptions options;
  options.cpus = config.cpus.empty() ? topology.physical_cores : config.cpus;
  options.n_threads = config.threads > 0 ? config.threads : static_cast<int>(options.cpus.size());
  // While a GPU computes its part of a layer they wait for theirs: to wake takes about as long.
  if (device::cuda::is_cuda_spec(config.device)) options.spin_us = kBetweenLayersUs;
  // More threads than cores share them as the system sees fit.
  if (options.n_threads > static_cast<int>(options.cpus.size())) options.cpus.clear();
  return options;
}

constexpr double kMaxBudgetGib = 1048576;

Error bad_budget(const std::string& text, size_t n_devices) {
  return {ErrorCode::kBadInput,
          format("--vram-budget-gib {}: a number of GiB from 0 to {} is wanted, or {} of them separated by commas",
                 printable(text), kMaxBudgetGib, n_devices)};
}

}  // namespace

Result<std::vector<uint64_t>> device_limits(const std::string& text, size_t n_devices) {
  std::vector<uint64_t> limits;
  if (text.empty()) return std::vector<uint64_t>(n_devices, UINT64_MAX);
  for (const char *at = text.data(), *end = at + text.size();; at++) {
    double gib = 0;
    const auto [stop, error] = std::from_chars(at, end, gib, std::chars_format::fixed);
    if (error != std::errc() || !(gib >= 0 && gib <= kMaxBudgetGib)) return bad_budget(text, n_devices);
    limits.push_back(static_cast<uint64_t>(gib * static_cast<double>(kGiB)));
    at = stop;
    if (at == end) break;
    if (*at != ',') return bad_budget(text, n_devices);
  }
  if (limits.size() == 1) limits.resize(n_devices, limits.front());
  if (limits.size() != n_devices) return bad_budget(text, n_devices);
  return limits;
}

Result<std::vector<NamedGpu>> named_gpus(const std::string& device, const std::string& budgets) {
  ASSIGN_OR_RETURN(const std::vector<int> ordinals, device::cuda::parse_cuda_spec(device));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> limits, device_limits(budgets, ordinals.size()));
  std::vector<NamedGpu> gpus;
  for (size_t i = 0; i < ordinals.size(); i++) {
    NamedGpu& gpu = gpus.emplace_back(NamedGpu{.ordinal = ordinals[i], .limit_bytes = {}});
    if (limits[i] != UINT64_MAX) gpu.limit_bytes = limits[i];
    if (gpu.limit_bytes || std::count(ordinals.begin(), ordinals.end(), ordinals[i]) == 1) continue;
    return Error{ErrorCode::kBadInput,
                 format("--device {}: cuda:{} is named more than once; --vram-budget-gib has to say how its memory is "
                        "shared out",
                        printable(device), ordinals[i])};
  }
  return gpus;
}

DeviceRates gpu_rates(const device::cuda::Gpu& gpu, double link_bytes_per_s) {
  DeviceRates rates;
  if (gpu.memory_bytes_per_second() > 0) rates.memory_bytes_per_s = gpu.memory_bytes_per_second();
  if (link_bytes_per_s > 0) rates.link_bytes_per_s = link_bytes_per_s;
  return rates;
}

Result<std::unique_ptr<Devices>> Devices::open(const EngineConfig& config, uint64_t ram_bytes) {
  std::unique_ptr<Devices> devices(new Devices);
  ASSIGN_OR_RETURN(const kernels::Kernels* kernels, kernels::select_kernels(config.isa.c_str()));
  devices->host_ = std::make_unique<device::host::HostDevice>(device::host::HostDeviceOptions{
      .budget_bytes = ram_bytes, .threads = thread_options(config), .kernels = kernels});
  if (device::cuda::is_cuda_spec(config.device)) {
    RETURN_IF_ERROR(devices->open_gpus(config));
    return devices;
  }
  if (!config.vram_budget.empty()) {
    return Error{ErrorCode::kBadInput,
                 format("--vram-budget-gib {}: --device {} is no GPU; --ram-gib limits the memory of cpu, and the name "
                        "of a simulated device says what it has",
                        printable(config.vram_budget), printable(config.device))};
  }
  if (config.device == "cpu") {
    devices->computing_.push_back(devices->host_.get());
    devices->rates_.emplace_back();
    return devices;
  }
  RETURN_IF_ERROR(devices->open_simulated(config, *kernels));
  return devices;
}

Status Devices::open_simulated(const EngineConfig& config, const kernels::Kernels& kernels) {
  device::sim::SimOptions options;
  options.kernels = &kernels;
  ASSIGN_OR_RETURN(machine_, device::sim::make_sim(config.device, options));
  for (int i = 0; i < machine_->n_devices(); i++) {
    computing_.push_back(&machine_->device(i));
    rates_.push_back(rates_of(machine_->spec().devices[static_cast<size_t>(i)]));
  }
  return {};
}

Status Devices::open_gpus(const EngineConfig& config) {
  ASSIGN_OR_RETURN(const std::vector<NamedGpu> named, named_gpus(config.device, config.vram_budget));
  gpus_.resize(named.size());
  // A context with all its kernels takes a while.
  RETURN_IF_ERROR(side_by_side(named.size(), [&](size_t i) -> Status {
    const device::cuda::GpuOptions options{.limit_bytes = named[i].limit_bytes,
                                           .reserve_bytes = config.vram_reserve_bytes,
                                           .deterministic = config.deterministic,
                                           .peer_copies = config.peer_copies};
    ASSIGN_OR_RETURN(gpus_[i], device::cuda::open_gpu(named[i].ordinal, options));
    return {};
  }));
  for (const auto& gpu : gpus_) {
    computing_.push_back(gpu.get());
    double link = 0;
    if (gpus_.size() > 1) {  // else nothing hangs on it
      ASSIGN_OR_RETURN(link, measure_copies(*gpu, real_clock()));
    }
    rates_.push_back(gpu_rates(*gpu, link));
  }
  return {};
}

uint64_t Devices::host_bytes() const {
  uint64_t bytes = host_->used_bytes() + (machine_ ? machine_->host_bytes() : 0);
  for (const auto& gpu : gpus_) bytes += gpu->host_bytes();
  return bytes;
}

uint64_t Devices::n_allocations() const {
  uint64_t n = 0;
  for (int i = 0; machine_ && i < machine_->n_devices(); i++) n += machine_->device(i).n_allocations();
  for (const auto& gpu : gpus_) n += gpu->n_allocations();
  return n;
}

std::vector<PlannedDevice> Devices::planned(uint64_t ram_bytes) const {
  std::vector<PlannedDevice> planned;
  for (size_t i = 0; i < computing_.size(); i++) {
    const bool on_host = computing_[i] == host_.get();
    planned.push_back({.name = computing_[i]->name(),
                       .budget_bytes = on_host ? ram_bytes : computing_[i]->budget_bytes(),
                       .on_host = on_host,
                       .rates = rates_[i]});
  }
  return planned;
}

bool Devices::peers() const {
  return std::all_of(computing_.begin(), computing_.end(), [&](const device::Device* from) {
    return std::all_of(computing_.begin(), computing_.end(),
                       [&](const device::Device* to) { return from->reaches(*to); });
  });
}

double Devices::cpu_bytes_per_s() const {
  return machine_ ? static_cast<double>(machine_->spec().host_bytes_per_s) : kTypicalCpuBytesPerS;
}

int64_t Devices::now_ns() { return machine_ ? machine_->now_ns() : real_clock().now_ns(); }

Status Devices::health() { return machine_ ? machine_->health() : Status(); }

}  // namespace strata::engine
