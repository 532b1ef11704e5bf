// Inside base/ only: whole text files of /proc and /sys, whose size is not known before they are read.
#pragma once

#include <string>

#include "base/result.h"

namespace strata {

// The whole file, at most 1 MiB (more is kBadInput). kNotFound when it does not exist.
Result<std::string> read_small_file(const std::string& path);

}  // namespace strata
