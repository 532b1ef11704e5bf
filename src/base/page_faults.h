// Page faults of this process, from which one sees whether what it reads is in memory.
#pragma once

#include <cstdint>

namespace strata {

// Faults so far, of all threads, that waited for a drive. Takes a fraction of a microsecond.
int64_t major_page_faults();

}  // namespace strata
