// Made-up weights of any tensor type.
#pragma once

#include <cstddef>
#include <span>

#include "base/random.h"
#include "base/result.h"
#include "quant/type.h"

namespace strata::cli {

// Fills `out`, a whole number of blocks, with random ones whose values are neither huge nor all tiny, so that products
// stay normal numbers.
Status fill_with_blocks(const quant::TypeInfo& type, Random& random, std::span<std::byte> out);

}  // namespace strata::cli
