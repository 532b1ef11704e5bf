#include "quant/sha256.h"

#include <bit>
#include <cstdio>

namespace strata::test {

namespace {

// The first 32 fraction bits of the square (power 2) or cube (power 3) root of a prime, by bisection on integers.
uint32_t root_fraction(uint32_t prime, int power) {
  using Wide = unsigned __int128;
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 37; bit != 0; bit >>= 1) {
    const uint64_t next = root | bit;  // root * 2^32
    Wide raised = 1;
    for (int i = 0; i < power; i++) raised *= next;
    if (raised <= Wide{prime} << (32 * power)) root = next;
  }
  return static_cast<uint32_t>(root);
}

std::vector<uint32_t> primes(size_t count) {
  std::vector<uint32_t> found;
  for (uint32_t candidate = 2; found.size() < count; candidate++) {
    bool prime = true;
    for (const uint32_t p : found) prime = prime && candidate % p != 0;
    if (prime) found.push_back(candidate);
  }
  return found;
}

void compress(uint32_t state[8], const uint8_t* block, const uint32_t k[64]) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++) {
    w[i] = static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; i++) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t v[8];  // a..h
  for (int i = 0; i < 8; i++) v[i] = state[i];
  for (int i = 0; i < 64; i++) {
    const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
    const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    for (int j = 7; j > 0; j--) v[j] = v[j - 1];
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

}  // namespace

std::string sha256_hex(std::vector<uint8_t> message) {
  const std::vector<uint32_t> p = primes(64);
  uint32_t k[64], state[8];
  for (size_t i = 0; i < 64; i++) k[i] = root_fraction(p[i], 3);
  for (size_t i = 0; i < 8; i++) state[i] = root_fraction(p[i], 2);

  const uint64_t bits = uint64_t{message.size()} * 8;
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) message.push_back(static_cast<uint8_t>(bits >> shift));
  for (size_t at = 0; at < message.size(); at += 64) compress(state, &message[at], k);

  std::string hex;
  for (const uint32_t word : state) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", word);
    hex += digits;
  }
  return hex;
}

}  // namespace strata::test
