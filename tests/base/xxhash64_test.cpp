// Against the check values of the reference implementation: bytes of a given generator, with two seeds.
#include "base/xxhash64.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

std::vector<std::byte> generated(size_t n) {
  std::vector<std::byte> bytes;
  uint64_t state = 2654435761;
  for (size_t i = 0; i < n; i++) {
    bytes.push_back(static_cast<std::byte>(state >> 56));
    state *= 0x9E3779B185EBCA8D;
  }
  return bytes;
}

uint64_t hash_of(std::span<const std::byte> bytes, uint64_t seed) {
  Xxhash64 hash(seed);
  hash.update(bytes);
  return hash.digest();
}

TEST(Xxhash64Test, GivesTheReferencesValues) {
  constexpr uint64_t kSeed = 2654435761;
  const struct {
    size_t n;
    uint64_t seed, hash;
  } rows[] = {{0, 0, 0xEF46DB3751D8E999},   {0, kSeed, 0xAC75FDA2929B17EF}, {1, 0, 0xE934A84ADB052768},
              {1, kSeed, 0x5014607643A9B4C3}, {4, 0, 0x9136A0DCA57457EE},   {14, 0, 0x8282DCC4994E35C8},
              {14, kSeed, 0xC3BD6BF63DEB6DF0}, {222, 0, 0xB641AE8CB691C174}, {222, kSeed, 0x20CB8AB7AE10C14A}};
  for (const auto& row : rows) EXPECT_EQ(hash_of(generated(row.n), row.seed), row.hash) << row.n << " " << row.seed;
  EXPECT_EQ(xxhash64(std::as_bytes(std::span(std::string_view("abc")))), 0x44BC2CF5AD770999);
}

TEST(Xxhash64Test, HowBytesArriveDoesNotMatter) {
  const std::vector<std::byte> bytes = generated(200);
  const uint64_t whole = xxhash64(bytes);
  for (size_t a = 0; a <= bytes.size(); a += 7) {
    for (size_t b = a; b <= bytes.size(); b += 13) {
      Xxhash64 hash;
      hash.update(std::span(bytes).first(a));
      hash.update(std::span(bytes).subspan(a, b - a));
      hash.update(std::span(bytes).subspan(b));
      EXPECT_EQ(hash.digest(), whole) << a << " " << b;
    }
  }
  Xxhash64 number, eight;
  number.update(uint64_t{0x0807060504030201});
  const std::byte same[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                            std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};
  eight.update(same);
  EXPECT_EQ(number.digest(), eight.digest());
}

}  // namespace
}  // namespace strata
