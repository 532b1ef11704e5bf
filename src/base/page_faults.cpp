#include "base/page_faults.h"

#include <sys/resource.h>

namespace strata {

int64_t major_page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_majflt;
}

}  // namespace strata
