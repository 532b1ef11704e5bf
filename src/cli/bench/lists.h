// Lists of numbers and shapes in flags.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace strata::cli {

struct CountRange {
  int64_t min;
  int64_t max;
};

// "512,2048": at most 16 numbers within the range. kBadInput names the flag, the piece and what is allowed.
Result<std::vector<int64_t>> parse_counts(const Settings& settings, Key key, CountRange allowed);

struct Shape {
  int64_t rows;
  int64_t cols;
};

// "768x2048,2048x768" of --shape: at most 16 shapes of a matrix, whose rows are whole blocks of every tensor type.
Result<std::vector<Shape>> parse_shapes(const Settings& settings);

}  // namespace strata::cli
