// Sorting values for filters, and the keys they compare.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// What a filter's argument `attribute` picks out of an item: names and indices, separated by dots.
Value attribute_path(Runtime& runtime, const Value& item, const Value& path);
// Strings in lower case, unless case matters; other values as they are.
Value comparable(Runtime& runtime, const Value& value, bool case_sensitive);

struct Keyed {
  Value key, value;
};
// Stable; fails where keys have no order.
void sort_by_key(Runtime& runtime, std::vector<Keyed>& items, bool descending);

}  // namespace strata::text::jinja
