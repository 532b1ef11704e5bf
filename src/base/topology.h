// What the machine offers this process: cores it may use, and RAM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace strata {

struct Topology {
  std::vector<int> cpus;            // logical CPUs in the affinity mask, ascending
  std::vector<int> physical_cores;  // of those, the first logical CPU of each physical core
};

// Reads sched_getaffinity and /sys/devices/system/cpu (`sys_root` replaces "/sys" in tests). Where /sys is unreadable
// every logical CPU counts as a core.
Topology read_topology(const std::string& sys_root = "/sys");

// "0-3,8,10-11" -> {0,1,2,3,8,10,11}; kBadInput names the bad piece. At most 4096 CPUs.
Result<std::vector<int>> parse_cpu_list(const std::string& text);

// Bytes of RAM a new allocation may count on: MemAvailable of `proc_root`/meminfo (specs: cgroup limits tighten it).
// nullopt-like 0 is never returned for "unknown": an unreadable file is an error.
Result<uint64_t> available_ram_bytes(const std::string& proc_root = "/proc");

}  // namespace strata
