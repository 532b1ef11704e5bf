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

// "0-3,8,10-11" -> {0,1,2,3,8,10,11}, in the order given. kBadInput names the bad piece: not a core from 0 to 4095, a
// range that runs backwards, nothing, or a core named twice.
Result<std::vector<int>> parse_cpu_list(const std::string& text);

// Bytes of RAM that new allocations may count on: MemAvailable of `proc_root`/meminfo, tightened by every memory limit
// of the control groups, version 1 or 2, above this process (`proc_root`/self/cgroup, below `cgroup_root`). A group
// leaves its limit - (usage - clean file cache); clean is what is inactive, neither dirty nor being written. A limit
// that can't be read or understood counts as no room. An unreadable meminfo is an error, never 0.
Result<uint64_t> available_ram_bytes(const std::string& proc_root = "/proc",
                                     const std::string& cgroup_root = "/sys/fs/cgroup");

// Of those, the bytes that nobody uses, not even for file cache: what can be page-locked without taking pages from
// anybody. MemFree, tightened by limit - usage of the groups; the same errors.
Result<uint64_t> free_ram_bytes(const std::string& proc_root = "/proc",
                                const std::string& cgroup_root = "/sys/fs/cgroup");

}  // namespace strata
