// How fast the drive behind a file gives its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace strata::cli {

struct DriveSpeed {
  std::string path;
  uint64_t file_bytes = 0;
  uint64_t read_bytes = 0;
  double bytes_per_second = 0;
  // Read past the cache of the system. Where the file system has no such reads, the file's clean pages were dropped
  // from the cache before, and what other programs hold of it may still come from there.
  bool direct = false;
};

// Reads scattered pieces of the file as experts are read, of a MiB and sixteen at a time, for at most a few seconds and
// 2 GiB. kNotFound and kBadInput when it is not a file with at least one byte, kIo when it can't be read.
Result<DriveSpeed> measure_drive(const std::string& path);

}  // namespace strata::cli
