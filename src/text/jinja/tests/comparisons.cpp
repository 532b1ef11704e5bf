// Tests that compare values.
#include "text/jinja/operators.h"
#include "text/jinja/runtime.h"
#include "text/jinja/tests/test.h"

namespace strata::text::jinja {
namespace {

template <bool (*holds)(Heap&, const Value&, const Value&)>
bool comparison(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("the test", arguments, {"other"}, 1);
  return holds(runtime.heap(), input, bound[0]);
}

bool is_same(Heap&, const Value& left, const Value& right) { return left.same_as(right); }

bool is_divisible(Heap& heap, const Value& left, const Value& right) {
  return modulo(heap, left.is_string() ? Value::undefined() : left, right).as_double() == 0;
}

template <int remainder>
bool has_parity(Runtime&, const Value& input, const Arguments& arguments) {
  const Bound bound("the test", arguments, {});
  if (!input.is_number() || input.is(Kind::kFloat)) {
    fail("{} takes an integer, not {}", remainder == 0 ? "even" : "odd", input.description());
  }
  return (input.as_int() & 1) == remainder;
}

constexpr TestRow kRows[] = {
    {"equalto", comparison<is_equal>},
    {"eq", comparison<is_equal>},
    {"==", comparison<is_equal>},
    {"ne", comparison<is_not_equal>},
    {"!=", comparison<is_not_equal>},
    {"lt", comparison<is_less>},
    {"lessthan", comparison<is_less>},
    {"<", comparison<is_less>},
    {"le", comparison<is_less_or_equal>},
    {"<=", comparison<is_less_or_equal>},
    {"gt", comparison<is_greater>},
    {"greaterthan", comparison<is_greater>},
    {">", comparison<is_greater>},
    {"ge", comparison<is_greater_or_equal>},
    {">=", comparison<is_greater_or_equal>},
    {"in", comparison<is_in>},
    {"sameas", comparison<is_same>},
    {"divisibleby", comparison<is_divisible>},
    {"even", has_parity<0>},
    {"odd", has_parity<1>},
};

}  // namespace

std::span<const TestRow> comparison_tests() { return kRows; }

}  // namespace strata::text::jinja
