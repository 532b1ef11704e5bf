#include "device/sim/sim_device.h"

#include <algorithm>

#include "base/format.h"
#include "device/host/host_ops.h"
#include "device/recording.h"
#include "device/sim/core.h"
#include "device/sim/sim_stream.h"

namespace strata::device::sim {

template <class M>
class SimDevice::Owned final : public M {
 public:
  Owned(SimDevice& device, MemoryKind kind, std::string name, std::byte* pages, size_t bytes)
      : M(&device, kind, std::move(name), pages, bytes), device_(device), record_(device.core_, *this) {
    this->set_observer(&record_);
  }
  ~Owned() override {
    record_.before_free();
    device_.core_.pages.give_back(this->address(), this->bytes());
    counter(device_, this->kind()) -= this->bytes();
  }
  static std::atomic<uint64_t>& counter(SimDevice& device, MemoryKind kind) {
    return kind == MemoryKind::kDevice ? device.used_bytes_ : device.core_.host_bytes;
  }

 private:
  SimDevice& device_;
  MemoryRecord record_;
};

// Its pages stay the program's: they are neither poisoned nor counted.
class SimDevice::Locked final : public HostBuffer {
 public:
  Locked(SimDevice& device, std::string name, std::span<const std::byte> range)
      : HostBuffer(&device, MemoryKind::kPinned, std::move(name), const_cast<std::byte*>(range.data()), range.size()),
        core_(device.core_),
        record_(device.core_, *this) {
    set_observer(&record_);
  }
  ~Locked() override {
    record_.before_free();
    core_.locked_bytes -= bytes();
  }

 private:
  Core& core_;
  MemoryRecord record_;
};

SimDevice::SimDevice(Core& core, int index)
    : core_(core),
      index_(index),
      name_(format("sim:{}", index)),
      budget_bytes_(core.spec.devices[static_cast<size_t>(index)].budget_bytes),
      compute_({.n_threads = 1, .spin_us = 0}, core.kernels) {}

SimDevice::~SimDevice() { ASSERT(used_bytes_.load() == 0); }

Result<std::unique_ptr<Buffer>> SimDevice::allocate(size_t bytes, std::string name) {
  ASSERT(bytes > 0);
  if (auto fault = core_.faults.visit(FaultPoint::kAllocation, name)) return *std::move(fault);
  uint64_t used = used_bytes_.load();
  do {
    if (bytes > budget_bytes_ - used) {
      return Error{ErrorCode::kNoMemory,
                   format("{} for {} does not fit on {}: {} of {} are left", format_bytes(bytes), name, name_,
                          format_bytes(budget_bytes_ - used), format_bytes(budget_bytes_))};
    }
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  std::byte* pages = core_.pages.take(bytes);
  if (pages == nullptr) {
    used_bytes_ -= bytes;
    return Error{ErrorCode::kNoMemory,
                 format("the system has no {} to stand for {} on {}", format_bytes(bytes), name, name_)};
  }
  n_allocations_++;
  return std::unique_ptr<Buffer>(new Owned<Buffer>(*this, MemoryKind::kDevice, std::move(name), pages, bytes));
}

Result<std::unique_ptr<HostBuffer>> SimDevice::allocate_host(size_t bytes, MemoryKind kind, std::string name) {
  ASSERT(bytes > 0);
  ASSERT(kind != MemoryKind::kDevice);
  if (auto fault = core_.faults.visit(FaultPoint::kAllocation, name)) return *std::move(fault);
  std::byte* pages = core_.pages.take(bytes);
  if (pages == nullptr) {
    return Error{ErrorCode::kNoMemory, format("the system has no {} for {}", format_bytes(bytes), name)};
  }
  core_.host_bytes += bytes;
  n_allocations_++;
  return std::unique_ptr<HostBuffer>(new Owned<HostBuffer>(*this, kind, std::move(name), pages, bytes));
}

Result<std::unique_ptr<const HostBuffer>> SimDevice::page_lock(std::span<const std::byte> range, MappedAs,
                                                               std::string name) {
  ASSERT(!range.empty());
  uint64_t locked = core_.locked_bytes.load();
  do {
    if (range.size() > core_.spec.lock_bytes - locked) {
      return Error{ErrorCode::kNoMemory,
                   format("{} cannot be page-locked: of the {} of lock= that {} has, {} are left",
                          format_bytes(range.size()), format_bytes(core_.spec.lock_bytes), name_,
                          format_bytes(core_.spec.lock_bytes - locked))};
    }
  } while (!core_.locked_bytes.compare_exchange_weak(locked, locked + range.size()));
  return std::unique_ptr<const HostBuffer>(new Locked(*this, std::move(name), range));
}

std::unique_ptr<Stream> SimDevice::make_stream(std::string name) {
  return std::make_unique<SimStream>(*this, std::move(name));
}
std::unique_ptr<Event> SimDevice::make_event() { return std::make_unique<SimEvent>(core_); }

Result<std::unique_ptr<Graph>> SimDevice::capture(const std::function<void(Stream&)>& enqueue) {
  std::unique_ptr<Recording> recording = Recording::capture(this, enqueue);
  if (auto fault = core_.faults.visit(FaultPoint::kAllocation, "workspace of a graph")) return *std::move(fault);
  int64_t floats = scratch_floats_.load();
  recording->for_each_launch(
      [&](const Launch& launch) { floats = std::max(floats, host::op_row(launch.op).scratch_floats(launch.args)); });
  int64_t known = scratch_floats_.load();
  while (known < floats && !scratch_floats_.compare_exchange_weak(known, floats)) continue;
  return std::unique_ptr<Graph>(std::move(recording));
}

// Devices of one machine have a link to each other, unless the spec says that they have none.
bool SimDevice::reaches(const Device& other) const {
  const auto* sim = dynamic_cast<const SimDevice*>(&other);
  return sim == this || (sim != nullptr && &sim->core_ == &core_ && core_.spec.peer_bytes_per_s > 0);
}

int device_index(const Core& core, const Memory& memory) {
  if (memory.kind() != MemoryKind::kDevice || MemoryRecord::of(core, memory) == nullptr) return -1;
  return static_cast<SimDevice*>(memory.owner())->index();
}

}  // namespace strata::device::sim
