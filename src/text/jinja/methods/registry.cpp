#include "text/jinja/methods/method.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {
namespace {

struct BoundMethod final : Object {
  BoundMethod(const Value& value, MethodFn fn) : self(value), method(fn) {}
  const char* type_name() const override { return "a method"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override { return method(runtime, self, arguments); }

  const Value self;
  const MethodFn method;
};

std::span<const MethodRow> methods_of(const Value& value) {
  if (value.is_string()) return string_methods();
  if (value.is(Kind::kDict)) return dict_methods();
  return value.is_list() ? list_methods() : std::span<const MethodRow>();
}

}  // namespace

std::optional<Value> find_method(Runtime& runtime, const Value& self, std::string_view name) {
  for (const MethodRow& row : methods_of(self)) {
    if (name == row.name) return Value::object(runtime.heap().make<BoundMethod>(self, row.call));
  }
  return std::nullopt;
}

}  // namespace strata::text::jinja
