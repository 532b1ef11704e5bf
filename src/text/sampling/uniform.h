// Seeded uniform numbers as other GGUF runtimes draw them, so that a seed means the same: MT19937, and the 53 bits of a
// double from two of its words, low word first.
#pragma once

#include <cstdint>
#include <random>

namespace strata::text {

class Uniform {
 public:
  explicit Uniform(uint32_t seed) : seed_(seed), engine_(seed) {}

  void reset() { engine_.seed(seed_); }

  // In [0, 1).
  double next() {
    const double low = static_cast<double>(engine_());
    const double high = static_cast<double>(engine_());
    const double u = (low + high * 0x1p32) * 0x1p-64;
    return u < 1 ? u : 1 - 0x1p-53;  // rounding of the sum may reach 1
  }

 private:
  uint32_t seed_;
  std::mt19937 engine_;
};

}  // namespace strata::text
