// Filters: a row per filter in the table of its group, the groups in registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

using FilterFn = Value (*)(Runtime& runtime, const Value& input, const Arguments& arguments);

struct FilterRow {
  const char* name;
  FilterFn apply;
};

std::span<const FilterRow> text_filters();
std::span<const FilterRow> list_filters();
std::span<const FilterRow> select_filters();
std::span<const FilterRow> value_filters();

// null where there is none.
FilterFn find_filter(std::string_view name);

}  // namespace strata::text::jinja
