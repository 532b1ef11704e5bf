#include "text/jinja/functions/function.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {
namespace {

struct Function final : Object {
  explicit Function(FunctionFn fn) : function(fn) {}
  const char* type_name() const override { return "a function"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override { return function(runtime, arguments); }

  const FunctionFn function;
};

constexpr FunctionRow kRows[] = {
    {"range", make_range},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"joiner", make_joiner},
    {"cycler", make_cycler},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

void add_functions(Runtime& runtime) {
  for (const FunctionRow& row : kRows) {
    runtime.set_global(row.name, Value::object(runtime.heap().make<Function>(row.call)));
  }
}

}  // namespace strata::text::jinja
