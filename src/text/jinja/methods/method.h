// Methods of strings, lists and mappings: a row per method in the table of its kind, the tables in registry.cpp.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

using MethodFn = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

struct MethodRow {
  const char* name;
  MethodFn call;
};

std::span<const MethodRow> string_methods();
std::span<const MethodRow> list_methods();
std::span<const MethodRow> dict_methods();

// The method of this name bound to the value; nullopt where values of its kind have none.
std::optional<Value> find_method(Runtime& runtime, const Value& self, std::string_view name);

}  // namespace strata::text::jinja
