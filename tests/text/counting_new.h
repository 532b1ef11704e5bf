// Counts the allocations of a test binary: linking counting_new.cpp replaces operator new.
#pragma once

#include <cstdint>

namespace strata::text::test {

// Calls of operator new since the start, of all threads.
int64_t n_allocations();

}  // namespace strata::text::test
