// Tests for what a value is. They never fail.
#include "text/jinja/runtime.h"
#include "text/jinja/tests/test.h"
#include "text/jinja/texts.h"

namespace strata::text::jinja {
namespace {

template <bool (*holds)(const Value&)>
bool kind_test(Runtime&, const Value& input, const Arguments& arguments) {
  const Bound bound("the test", arguments, {});
  return holds(input);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is(Kind::kNull); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is(Kind::kDict); }
bool is_sequence(const Value& value) {
  return value.is_list() || value.is_string() || value.is(Kind::kDict) || value.is_undefined();
}
bool is_number(const Value& value) { return value.is_number(); }
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_integer(const Value& value) { return value.is(Kind::kInt); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_true(const Value& value) { return value.is(Kind::kBool) && value.as_bool(); }
bool is_false(const Value& value) { return value.is(Kind::kBool) && !value.as_bool(); }
bool is_callable(const Value& value) { return value.is(Kind::kObject) && value.object().callable(); }

// Has letters, all of this case.
template <Value (*change)(Heap&, const MarkedText&), Value (*opposite)(Heap&, const MarkedText&)>
bool has_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("the test", arguments, {});
  if (!input.is_string()) return false;
  return change(runtime.heap(), input.text()).bytes() == input.bytes() &&
         opposite(runtime.heap(), input.text()).bytes() != input.bytes();
}

constexpr TestRow kRows[] = {
    {"defined", kind_test<is_defined>},
    {"undefined", kind_test<is_undefined>},
    {"none", kind_test<is_none>},
    {"string", kind_test<is_string>},
    {"mapping", kind_test<is_mapping>},
    {"iterable", kind_test<is_sequence>},
    {"sequence", kind_test<is_sequence>},
    {"number", kind_test<is_number>},
    {"boolean", kind_test<is_boolean>},
    {"integer", kind_test<is_integer>},
    {"float", kind_test<is_float>},
    {"true", kind_test<is_true>},
    {"false", kind_test<is_false>},
    {"callable", kind_test<is_callable>},
    {"lower", has_case<lower_text, upper_text>},
    {"upper", has_case<upper_text, lower_text>},
};

}  // namespace

std::span<const TestRow> kind_tests() { return kRows; }

}  // namespace strata::text::jinja
