// A machine of simulated devices: what `--device sim:...` makes.
//
// Its devices are Devices like any other (device/device.h); this header is for whoever makes the machine and for tests:
// simulated time, failures on demand, running queued work by hand.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/sim/faults.h"
#include "device/sim/sim_device.h"
#include "device/sim/spec.h"
#include "kernels/kernels.h"

namespace strata::device::sim {

struct Core;

struct SimOptions {
  // The kernels of the devices; null: the best that the machine has. Results are those of a host device with the same.
  const kernels::Kernels* kernels = nullptr;
  // Queued work stands still until run_next() runs it, or until somebody waits for it. For one thread only.
  bool manual = false;
};

// Owns its devices. Buffers, streams, events and graphs of the devices must die before it.
class SimMachine {
 public:
  SimMachine(const SimSpec& spec, const kernels::Kernels& kernels, bool manual);
  ~SimMachine();
  SimMachine(const SimMachine&) = delete;
  SimMachine& operator=(const SimMachine&) = delete;

  int n_devices() const { return static_cast<int>(devices_.size()); }
  SimDevice& device(int i) { return *devices_[static_cast<size_t>(i)]; }
  const SimSpec& spec() const;

  // Host memory of all devices that is handed out.
  uint64_t host_bytes() const;
  // Simulated time of the calling thread: what it has waited for is over by then. Starts at 0.
  int64_t now_ns();
  Faults& faults();

  // What the checker of access orders has found so far (docs/HACKING.md tells how to read a report), each pair of
  // places once. An operation, copy or task that races does not run: its stream fails with a line that names both
  // accesses.
  std::vector<std::string> races();
  // Accesses that raced, those included that were reported before.
  uint64_t n_races();
  // An error with the line of the first race, if there is one: for whoever must not go on after a race that no stream
  // has shown (one between threads of the host, or in the freeing of a buffer).
  Status health();

  // By hand (SimOptions::manual): runs the next job of a lane. Lanes are named "sim:0/STREAM" for the operations of a
  // stream and "sim:0/STREAM tasks" for its host tasks. Jobs are called like the operation or the host task, or "copy",
  // "fill_zero", "record", "wait event", "start task" (which hands a task over to the other lane), "wait task".
  // kNotFound when the lane's next job is another one, kUnsupported when it waits for something that has not been run.
  Status run_next(const std::string& lane, const std::string& job);
  // "lane: job" for each lane that has a job.
  std::vector<std::string> next_jobs();

 private:
  std::unique_ptr<Core> core_;
  std::vector<std::unique_ptr<SimDevice>> devices_;
};

// kBadInput says what is wrong with the spec.
Result<std::unique_ptr<SimMachine>> make_sim(std::string_view spec, const SimOptions& options = {});

}  // namespace strata::device::sim
