// Seeded random numbers: xoshiro256** (Blackman, Vigna; public domain algorithm), the same on every platform.
#pragma once

#include <cstdint>

namespace strata {

class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t next();
  // Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound);
  // Uniform in [0, 1), 53 bits.
  double uniform();
  // Standard normal (Box-Muller).
  double normal();

 private:
  uint64_t state_[4];
};

}  // namespace strata
