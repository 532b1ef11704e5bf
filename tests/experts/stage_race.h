// E01: a copy that is still queued on a slow stream, hidden by one on a fast stream, while its buffer is refilled.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace strata::test {

struct StageRaceOutcome {
  Status refill;             // of the fetch that recycles the buffer
  int64_t fence_waits = 0;   // after it
  bool copies_right = false; // both hold the first expert's bytes
};

// Stages expert (0, 0), queues a copy of it on a stream that cannot go on yet and one on a stream that can, then asks
// for experts of higher layers until the buffer is refilled. The first stream goes on once the refill waits for it, or
// has not waited for it.
StageRaceOutcome run_stage_race(device::Device& device);

}  // namespace strata::test
