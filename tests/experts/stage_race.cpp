#include "experts/stage_race.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "experts/expert_files.h"
#include "experts/sources/direct.h"

namespace strata::test {
namespace {

using device::MemoryKind;
using experts::ExpertKey;
using experts::Lease;

// The bytes of (0, 0)'s first part, after copies to the device and back.
bool holds_first_expert(device::Stream& stream, const device::Buffer& copy) {
  const auto back = stream.device()->allocate_host(copy.bytes(), MemoryKind::kPinned, "back").value();
  stream.copy(*back, 0, copy, 0, copy.bytes());
  if (!stream.synchronize().ok()) return false;
  const auto guard = back->read<std::byte>(0, copy.bytes());
  const auto number = std::byte{part_number({0, 0}, experts::PartKind::kGate)};
  return std::all_of(guard.span().begin(), guard.span().end(), [&](std::byte b) { return b == number; });
}

}  // namespace

StageRaceOutcome run_stage_race(device::Device& device) {
  const ExpertSpec spec{.n_layers = 4, .n_experts = 2};
  ExpertFiles files(expert_tensors(spec, numbered_parts()), 1);
  const auto model = gguf::Model::open(files.path(), files.system()).value();
  const auto layout =
      experts::ExpertLayout::from_model(*model, spec.n_layers, spec.dim, spec.ffn, spec.n_experts).value();
  Stats stats;
  const auto source = experts::make_direct_source({.model = *model,
                                                   .layout = layout,
                                                   .files = files.system(),
                                                   .device = device,
                                                   .clock = real_clock(),
                                                   .stats = stats,
                                                   .n_buffers = 2,
                                                   .io_depth = 2,
                                                   .available_ram = [] { return Result<uint64_t>(64 * kGiB); }})
                          .value();
  const size_t bytes = part_bytes(spec, experts::PartKind::kGate);
  const auto slow_copy = device.allocate(bytes, "slow copy").value();
  const auto fast_copy = device.allocate(bytes, "fast copy").value();
  const auto slow = device.make_stream("slow");
  const auto fast = device.make_stream("fast");
  const auto fetch = [&](ExpertKey key, Lease& lease) { return source->fetch({&key, 1}, {&lease, 1}); };

  std::atomic<bool> refilled{false};
  const auto wait_at_gate = [&]() -> Status {
    while (!refilled && stats.get(Counter::kStageFenceWaits) == 0) std::this_thread::yield();
    return {};
  };
  const device::HostTask gate{.name = "gate", .run = wait_at_gate, .ranges = {}};
  StageRaceOutcome outcome;
  Lease lease;
  outcome.refill = fetch({0, 0}, lease);
  if (!outcome.refill.ok()) return outcome;
  const Lease::HostPlace gate_part = lease.host_place(0);
  slow->wait(slow->host_task(gate));
  slow->copy(*slow_copy, 0, *gate_part.buffer, gate_part.offset, bytes);
  lease.note_async_read(*slow);
  fast->copy(*fast_copy, 0, *gate_part.buffer, gate_part.offset, bytes);
  lease.note_async_read(*fast);
  lease.release();
  static_cast<void>(fast->synchronize());

  for (const int32_t layer : {1, 2}) {
    outcome.refill = fetch({layer, 0}, lease);
    if (!outcome.refill.ok()) break;
    lease.release();
  }
  refilled = true;
  outcome.fence_waits = stats.get(Counter::kStageFenceWaits);
  outcome.copies_right = slow->synchronize().ok() && holds_first_expert(*slow, *slow_copy) &&
                         holds_first_expert(*fast, *fast_copy);
  return outcome;
}

}  // namespace strata::test
