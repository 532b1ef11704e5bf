// Filters that apply tests and filters to each item.
#include "text/jinja/filters/filter.h"
#include "text/jinja/order.h"
#include "text/jinja/tests/test.h"

namespace strata::text::jinja {
namespace {

const std::string& name_of(const char* filter, const Value& value) {
  if (!value.is_string()) fail("{} takes names as strings, not {}", filter, value.description());
  return value.bytes();
}

// Arguments from number `first` on, for the test or filter that is applied.
Arguments rest_of(const Arguments& arguments, size_t first) {
  Arguments out;
  out.positional.assign(arguments.positional.begin() + static_cast<int64_t>(first), arguments.positional.end());
  out.named = arguments.named;
  return out;
}

// select, reject, selectattr, rejectattr: [attribute,] [test, its arguments].
template <bool keeps, bool by_attribute>
Value filtered(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const char* name = by_attribute ? (keeps ? "selectattr" : "rejectattr") : (keeps ? "select" : "reject");
  constexpr size_t kTest = by_attribute ? 1 : 0;
  if (arguments.positional.size() < kTest) fail("{} needs the name of an attribute", name);
  TestFn test = nullptr;
  Arguments test_arguments;
  if (arguments.positional.size() > kTest) {
    const std::string& test_name = name_of(name, arguments.positional[kTest]);
    test = find_test(test_name);
    if (test == nullptr) fail("there is no test '{}'", printable(test_name, kMaxNameBytes));
    test_arguments = rest_of(arguments, kTest + 1);
  }
  Value out = runtime.heap().list({});
  for (const Value& item : iterate(runtime, input)) {
    runtime.heap().step();
    const Value subject = by_attribute ? attribute_path(runtime, item, arguments.positional[0]) : item;
    const bool holds = test == nullptr ? truthy(subject) : test(runtime, subject, test_arguments);
    if (holds == keeps) runtime.heap().append(out.items(), item);
  }
  return out;
}

Value map_attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("map", arguments, {"attribute", "default"});
  Value out = runtime.heap().list({});
  for (const Value& item : iterate(runtime, input)) {
    const Value value = attribute_path(runtime, item, bound[0]);
    runtime.heap().append(out.items(), value.is_undefined() ? bound.get(1, value) : value);
  }
  return out;
}

// map(attribute='name') or map('filter', its arguments).
Value map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    for (const auto& [name, value] : arguments.named) {
      if (name == "attribute") return map_attribute(runtime, input, arguments);
    }
    fail("map needs the name of a filter, or attribute=");
  }
  const std::string& filter_name = name_of("map", arguments.positional[0]);
  const FilterFn filter = find_filter(filter_name);
  if (filter == nullptr) fail("there is no filter '{}'", printable(filter_name, kMaxNameBytes));
  const DepthGuard guard(runtime);  // map('map', 'map', ...)
  const Arguments rest = rest_of(arguments, 1);
  Value out = runtime.heap().list({});
  for (const Value& item : iterate(runtime, input)) {
    runtime.heap().step();
    runtime.heap().append(out.items(), filter(runtime, item, rest));
  }
  return out;
}

constexpr FilterRow kRows[] = {
    {"select", filtered<true, false>},     {"reject", filtered<false, false>},
    {"selectattr", filtered<true, true>},  {"rejectattr", filtered<false, true>},
    {"map", map},
};

}  // namespace

std::span<const FilterRow> select_filters() { return kRows; }

}  // namespace strata::text::jinja
