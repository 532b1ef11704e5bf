#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/assert.h"

namespace strata {
namespace {

uint64_t rotate_left(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

// SplitMix64: spreads a seed of few bits over the whole state, which must not be all zero.
uint64_t split_mix(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = split_mix(seed);
}

uint64_t Random::next() {
  const uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t bound) {
  ASSERT(bound > 0);
  // The lowest 2^64 mod bound values are drawn again: what is left is a multiple of bound, so no result is favoured.
  const uint64_t rejected = (0 - bound) % bound;
  uint64_t value = next();
  while (value < rejected) value = next();
  return value % bound;
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));  // of (0, 1]: the logarithm is finite
  const double angle = 2.0 * std::numbers::pi * uniform();
  return radius * std::cos(angle);
}

}  // namespace strata
