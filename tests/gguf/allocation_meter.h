// Counts what a piece of code allocates: allocation_meter.cpp replaces operator new of the test binary.
#pragma once

#include <cstdint>

namespace strata::test {

// Counts while it lives; one at a time.
class AllocationMeter {
 public:
  AllocationMeter();
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  uint64_t total_bytes() const;  // of all allocations, freed or not: an upper bound of what was held at once
};

}  // namespace strata::test
