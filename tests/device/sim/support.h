// What the tests of simulated devices share.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "device/sim/machine.h"

namespace strata::test {

using device::Buffer;
using device::Event;
using device::HostBuffer;
using device::HostTask;
using device::MemoryKind;
using device::Stream;
using device::sim::FaultPoint;
using device::sim::SimDevice;
using device::sim::SimMachine;
using device::sim::SimOptions;

inline std::unique_ptr<SimMachine> machine_of(const std::string& spec, const SimOptions& options = {}) {
  auto machine = device::sim::make_sim(spec, options);
  if (!machine.ok()) ADD_FAILURE() << machine.error().message;
  return std::move(machine).value();
}

inline std::unique_ptr<HostBuffer> host_buffer(SimDevice& device, size_t bytes, MemoryKind kind,
                                               const std::string& name = "host buffer") {
  return device.allocate_host(bytes, kind, name).value();
}

inline void set_bytes(HostBuffer& buffer, int value) {
  const auto guard = buffer.write<std::byte>(0, buffer.bytes());
  std::memset(guard.span().data(), value, guard.span().size());
}
inline int first_byte(const HostBuffer& buffer) { return static_cast<int>(buffer.read<std::byte>(0, 1)[0]); }

inline HostTask task_of(const char* name, std::function<Status()> run, std::vector<device::Range> ranges = {}) {
  return {.name = name, .run = std::move(run), .ranges = std::move(ranges)};
}
inline device::Range range_of(const device::Memory& memory, bool write) {
  return {&memory, 0, memory.bytes(), 1, memory.bytes(), write};
}

}  // namespace strata::test
