#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace strata {

void assert_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "strata: bug: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace strata
