// What a machine has for a model: cores, memory and its speed, pages, a drive. Decisions about where experts should be
// start from these numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench/drive_speed.h"
#include "cli/bench/memory_speed.h"

namespace strata::cli {

struct SystemOptions {
  std::vector<int> cpus = {};                  // as --cpus; empty: all that the process may use
  uint64_t buffer_bytes = kMemorySpeedBytes;
  std::string drive_file = {};                 // whose drive is measured; empty for none
};

struct SystemReport {
  std::string cpu_name;
  int n_cpus = 0;            // logical ones that the process may use
  int n_physical_cores = 0;  // of those
  uint64_t cache_bytes = 0;  // of the largest cache
  // Of the features that kernels use, those the processor has and the system's kernel grants, in the latter's names.
  std::vector<std::string> features;
  std::string kernels;             // the best instruction set for which there are kernels
  uint64_t available_ram_bytes = 0;
  uint64_t page_bytes = 0;
  std::string huge_pages;          // always, madvise, never, or unknown: when anonymous memory gets huge pages
  std::vector<MemorySpeed> memory;  // with one thread, and with one per core if there are more
  std::optional<DriveSpeed> drive;
};

// Takes some seconds and all cores. kBadInput for a file that isn't one, kNoMemory when there is hardly any RAM.
Result<SystemReport> measure_system(const SystemOptions& options);

// As the processor's maker and the system tell; "unknown" where they don't.
std::string cpu_name();
// Of the largest cache; 0 where the system does not say.
uint64_t largest_cache_bytes();

std::string system_text(const SystemReport& report);
std::string system_json(const SystemReport& report);

}  // namespace strata::cli
