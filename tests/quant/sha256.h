// SHA-256 (FIPS 180-4) of a short byte string, for comparing tables with published sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::test {

// 64 lower-case hex digits.
std::string sha256_hex(std::vector<uint8_t> message);

}  // namespace strata::test
