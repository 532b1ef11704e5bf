// What the parts of a simulated machine share. It dies after all of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "device/sim/checker.h"
#include "device/sim/faults.h"
#include "device/sim/memory_record.h"
#include "device/sim/order.h"
#include "device/sim/schedule.h"
#include "device/sim/spec.h"
#include "device/sim/timing.h"
#include "kernels/kernels.h"

namespace strata::device::sim {

struct Core {
  Core(SimSpec the_spec, const kernels::Kernels& the_kernels, bool manual)
      : spec(std::move(the_spec)),
        kernels(the_kernels),
        schedule(manual, spec.seed),
        links(spec.devices.size()),
        peer_links(spec.devices.size() * spec.devices.size()) {
    if (spec.check) checker = std::make_unique<Checker>();
  }

  // The link between two devices, whichever way.
  Link& peer_link(size_t a, size_t b) { return peer_links[std::min(a, b) * links.size() + std::max(a, b)]; }

  const SimSpec spec;
  const kernels::Kernels& kernels;
  Pages pages;
  std::atomic<uint64_t> host_bytes{0};    // of host memory that is handed out
  std::atomic<uint64_t> locked_bytes{0};  // of the program's own memory
  Faults faults;
  Order order;
  Schedule schedule;
  // Guarded by the mutex of `order`, like all that has to do with time.
  std::vector<Link> links;  // by device: to and from the host
  std::vector<Link> peer_links;
  Link drive;
  std::unique_ptr<Checker> checker;  // null: nothing is checked
};

}  // namespace strata::device::sim
