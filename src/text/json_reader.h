// JSON that strangers have written.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace strata::text {

// One value, whatever stands in it: members keep their order, and of members with the same name the last one's value
// counts. Time is O(n log n) and memory linear in the text; nlohmann's own reader of ordered objects looks through all
// members before each one, and takes hours for the megabytes of one large object. kBadInput for what is no JSON in
// UTF-8, with a place ("is not JSON at line 2, column 5 (byte 17): ..."; lines and columns from 1, bytes from 0), and
// for arrays and objects nested more than `max_depth` deep.
Result<nlohmann::ordered_json> read_json(std::string_view text, int max_depth);

}  // namespace strata::text
