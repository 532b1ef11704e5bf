// XXH64, a fast 64-bit hash: finds bytes that have changed by accident, not by intent. After the public specification,
// github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata {

// Of bytes that come in any number of pieces: how they are cut does not matter.
class Xxhash64 {
 public:
  explicit Xxhash64(uint64_t seed = 0);
  void update(std::span<const std::byte> bytes);
  // A number as 8 bytes, little-endian.
  void update(uint64_t number);
  // Of what has come so far.
  uint64_t digest() const;

 private:
  static constexpr size_t kStripe = 32;
  void consume(const std::byte* stripe);

  uint64_t seed_;
  uint64_t lanes_[4];
  uint64_t total_ = 0;
  std::byte rest_[kStripe];  // the first total_ % kStripe of them
};

uint64_t xxhash64(std::span<const std::byte> bytes);

}  // namespace strata
