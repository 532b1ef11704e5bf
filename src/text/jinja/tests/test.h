// Tests (`x is test`): a row per test in the table of its group, the groups in registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

using TestFn = bool (*)(Runtime& runtime, const Value& input, const Arguments& arguments);

struct TestRow {
  const char* name;
  TestFn holds;
};

std::span<const TestRow> kind_tests();
std::span<const TestRow> comparison_tests();

// null where there is none.
TestFn find_test(std::string_view name);

}  // namespace strata::text::jinja
