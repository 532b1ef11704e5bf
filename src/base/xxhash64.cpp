#include "base/xxhash64.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"

namespace strata {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9,
                   kPrime4 = 0x85EBCA77C2B2AE63, kPrime5 = 0x27D4EB2F165667C5;

uint64_t round_of(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ round_of(0, lane)) * kPrime1 + kPrime4; }

}  // namespace

Xxhash64::Xxhash64(uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Xxhash64::consume(const std::byte* stripe) {
  for (size_t i = 0; i < 4; i++) lanes_[i] = round_of(lanes_[i], load_le<uint64_t>(stripe + 8 * i));
}

void Xxhash64::update(std::span<const std::byte> bytes) {
  const size_t held = total_ % kStripe;
  total_ += bytes.size();
  if (held > 0 || bytes.size() < kStripe) {
    const size_t n = std::min(bytes.size(), kStripe - held);
    if (n > 0) std::memcpy(rest_ + held, bytes.data(), n);
    bytes = bytes.subspan(n);
    if (held + n < kStripe) return;
    consume(rest_);
  }
  while (bytes.size() >= kStripe) {
    consume(bytes.data());
    bytes = bytes.subspan(kStripe);
  }
  if (!bytes.empty()) std::memcpy(rest_, bytes.data(), bytes.size());
}

void Xxhash64::update(uint64_t number) {
  std::byte bytes[sizeof number];
  store_le(bytes, number);
  update(bytes);
}

uint64_t Xxhash64::digest() const {
  uint64_t hash = seed_ + kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += total_;
  const std::byte* at = rest_;
  const std::byte* const end = rest_ + total_ % kStripe;
  for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ round_of(0, load_le<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = std::rotl(hash ^ load_le<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; at++) hash = std::rotl(hash ^ static_cast<uint64_t>(*at) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t xxhash64(std::span<const std::byte> bytes) {
  Xxhash64 hash;
  hash.update(bytes);
  return hash.digest();
}

}  // namespace strata
