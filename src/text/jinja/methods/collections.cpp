// Methods of lists, tuples and mappings.
#include "text/jinja/methods/method.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {
namespace {

Value append(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("append()", arguments, {"object"}, 1);
  if (self.is(Kind::kTuple)) fail("a tuple can't be changed by append()");
  runtime.heap().append(self.items(), bound[0]);
  return Value::null();
}

Value index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("index()", arguments, {"value"}, 1);
  const auto& items = self.items().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(runtime.heap(), items[i], bound[0])) return Value::integer(static_cast<int64_t>(i));
  }
  fail("index(): the value is not in the list");
}

Value items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("items()", arguments, {});
  return dict_items(runtime, self.entries());
}

Value keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("keys()", arguments, {});
  return runtime.heap().list(iterate(runtime, self));
}

Value values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("values()", arguments, {});
  Value out = runtime.heap().list({});
  for (const Dict::Entry& entry : self.entries().entries()) runtime.heap().append(out.items(), entry.value);
  return out;
}

Value get(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("get()", arguments, {"key", "default"}, 1);
  const Value* found = self.entries().find(bound[0]);
  return found != nullptr ? *found : bound.get(1, Value::null());
}

constexpr MethodRow kListMethods[] = {{"append", append}, {"index", index}};
constexpr MethodRow kDictMethods[] = {{"items", items}, {"keys", keys}, {"values", values}, {"get", get}};

}  // namespace

std::span<const MethodRow> list_methods() { return kListMethods; }
std::span<const MethodRow> dict_methods() { return kDictMethods; }

}  // namespace strata::text::jinja
