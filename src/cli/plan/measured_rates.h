// What `strata bench system` last measured on this machine, kept in a file for `strata plan`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench/system.h"

namespace strata::cli {

struct MeasuredRates {
  struct Ram {
    int threads = 0;
    double bytes_per_second = 0;
  };
  struct Drive {
    std::string date;  // of its measurement
    std::string path;  // of the file that was read
    double bytes_per_second = 0;
  };
  std::string date;  // of the RAM's, 2026-11-30
  std::string cpu;   // name of the processor
  std::vector<Ram> ram;
  std::optional<Drive> drive;

  // What so many threads read in a second: as measured, or for another number between what one and all of them do.
  double ram_rate(int threads) const;
};

// strata/rates.json in $XDG_CACHE_HOME, else in $HOME/.cache; empty where neither is an absolute path.
std::string rates_path();
// kNotFound when there is no such file, kBadInput when it is not what save_rates() writes.
Result<MeasuredRates> load_rates(const std::string& path);
// With the folders above it; a reader never sees half of it.
Status save_rates(const std::string& path, const MeasuredRates& rates);

// From a report of today; what it lacks about the drive is that of `earlier`, of the same processor.
MeasuredRates rates_of(const SystemReport& report, const std::string& date, const Result<MeasuredRates>& earlier);
// Merges the report into the file at rates_path(). A file that can't be written is only logged.
void keep_rates(const SystemReport& report);

}  // namespace strata::cli
