#include "text/jinja/tests/test.h"

namespace strata::text::jinja {

TestFn find_test(std::string_view name) {
  for (const auto group : {kind_tests(), comparison_tests()}) {
    for (const TestRow& row : group) {
      if (name == row.name) return row.holds;
    }
  }
  return nullptr;
}

}  // namespace strata::text::jinja
