// What a machine of simulated devices is made of, as `--device` writes it:
//
//   sim:64MiB,32MiB/link=2GiBps,64MiBps/peer=4GiBps/compute=50GFLOPs/mem=10GiBps/host=5GiBps/drive=1GiBps/seed=7
//
// One memory budget a device; `2x64MiB` stands for two alike. Then any of the parts below, each at most once, in any
// order. link, compute and mem take one rate for all devices or one for each; the others take one.
//
//   link     between the host and a device        mem    of a device's memory, under its operations
//   peer     between two devices                  host   of host memory, under host tasks
//   compute  of a device's arithmetic             drive  of reads from files
//   seed     of the random delays                 check  on or off: the checker of access orders
//   fail     n: the n-th thing that can fail does (faults.h)
//   lock     of the program's own memory, that can be page-locked; as a size, or off
//
// With peer=off no device reaches the memory of another one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace strata::device::sim {

inline constexpr int kMaxDevices = 16;
inline constexpr uint64_t kMaxBudgetBytes = 1024 * kGiB;  // of one device
inline constexpr uint64_t kMaxRate = uint64_t{1} << 60;   // bytes or operations per second

struct DeviceSpec {
  uint64_t budget_bytes = 0;
  uint64_t link_bytes_per_s = 16 * kGiB;
  uint64_t compute_flops_per_s = 10'000'000'000'000;
  uint64_t mem_bytes_per_s = 500 * kGiB;
};

struct SimSpec {
  std::vector<DeviceSpec> devices;
  uint64_t peer_bytes_per_s = 16 * kGiB;  // 0: devices don't reach each other
  uint64_t host_bytes_per_s = 50 * kGiB;
  uint64_t drive_bytes_per_s = 3 * kGiB;
  uint64_t seed = 1;
  bool check = true;
  uint64_t fail_at = 0;  // 0: nothing fails
  uint64_t lock_bytes = kMaxBudgetBytes;
};

// Whether a device setting means simulated devices.
inline bool is_sim_spec(std::string_view text) { return text.starts_with("sim:"); }

// kBadInput names the part that can't be right, and what it has to look like.
Result<SimSpec> parse_sim_spec(std::string_view text);

}  // namespace strata::device::sim
