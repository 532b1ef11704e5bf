// A source of direct reads over a model in memory.
#pragma once

#include <algorithm>

#include "device/sim/machine.h"
#include "experts/sources/direct.h"
#include "experts/support.h"

namespace strata::test {

class DirectRig {
 public:
  explicit DirectRig(const ExpertSpec& spec, int n_files = 1) : model(spec, numbered_parts(), n_files) {}

  // Options that a test changes as it likes. All memory is there and page-locked.
  experts::DirectOptions options(FileSystem& files, Clock& clock = real_clock()) {
    return options(*model.model, model.layout, files, clock);
  }
  experts::DirectOptions options() { return options(model.files.system()); }
  experts::DirectOptions options(const gguf::Model& the_model, const experts::ExpertLayout& layout, FileSystem& files,
                                 Clock& clock) {
    return {.model = the_model,
            .layout = layout,
            .files = files,
            .device = device,
            .clock = clock,
            .stats = stats,
            .n_buffers = 4,
            .io_depth = 8,
            .available_ram = [] { return Result<uint64_t>(64 * kGiB); }};
  }

  // Whether each part of the lease is full of its own number.
  bool right(const experts::Lease& lease) const {
    const experts::LayerLayout& layer = model.layout.layer(lease.key().layer);
    for (size_t p = 0; p < layer.parts.size(); p++) {
      const experts::BlobPart& part = layer.parts[p];
      const experts::Lease::HostPlace place = lease.host_place(static_cast<int>(p));
      const auto guard = place.buffer->read<std::byte>(place.offset, part.bytes);
      if (guard.span().data() != lease.part(static_cast<int>(p))) return false;
      const bool fused = part.kind == experts::PartKind::kGateUp;
      const size_t first = fused ? part.bytes / 2 : part.bytes;
      if (!all(guard.span().first(first), part_number(lease.key(), fused ? experts::PartKind::kGate : part.kind)) ||
          !all(guard.span().subspan(first), part_number(lease.key(), experts::PartKind::kUp))) {
        return false;
      }
    }
    return true;
  }

  ExpertModel model;
  std::unique_ptr<device::sim::SimMachine> machine = device::sim::make_sim("sim:1MiB/seed=3").value();
  device::sim::SimDevice& device = machine->device(0);
  Stats stats;

 private:
  static bool all(std::span<const std::byte> bytes, uint8_t number) {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == std::byte{number}; });
  }
};

}  // namespace strata::test
