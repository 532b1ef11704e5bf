#include "text/jinja/macros.h"

#include <algorithm>

namespace strata::text::jinja {
namespace {

class Macro final : public Object {
 public:
  Macro(const MacroDefinition* definition, Scope* scope) : definition_(*definition), scope_(scope) {}
  const char* type_name() const override { return "a macro"; }
  bool callable() const override { return true; }

  // The body's output, in a scope of its own inside the one the macro was defined in.
  Value call(Runtime& runtime, const Arguments& arguments) override {
    const DepthGuard depth(runtime);
    const ScopeGuard scope(runtime, scope_);
    bind_positional(runtime, arguments);
    bind_named(runtime, arguments);
    for (const auto& parameter : definition_.parameters) {
      if (is_given(parameter, arguments)) continue;
      runtime.assign(parameter.name, parameter.fallback == nullptr ? Value::undefined(parameter.name)
                                                                   : parameter.fallback->evaluate(runtime));
    }
    return capture_block(runtime, definition_.body);
  }

 private:
  void bind_positional(Runtime& runtime, const Arguments& arguments) const {
    const size_t n = std::min(arguments.positional.size(), definition_.parameters.size());
    for (size_t i = 0; i < n; ++i) runtime.assign(definition_.parameters[i].name, arguments.positional[i]);
    std::vector<Value> more(arguments.positional.begin() + static_cast<int64_t>(n), arguments.positional.end());
    if (!more.empty() && definition_.varargs == nullptr) {
      fail("macro '{}' takes at most {} arguments, not {}", definition_.name, definition_.parameters.size(),
           arguments.positional.size());
    }
    if (definition_.varargs != nullptr) runtime.assign(definition_.varargs, runtime.heap().tuple(std::move(more)));
  }

  void bind_named(Runtime& runtime, const Arguments& arguments) const {
    Dict* more = definition_.kwargs == nullptr ? nullptr : runtime.heap().dict();
    for (const auto& [name, value] : arguments.named) {
      const auto& parameters = definition_.parameters;
      const auto found = std::find_if(parameters.begin(), parameters.end(),
                                      [&key = name](const auto& parameter) { return *parameter.name == key; });
      if (found != parameters.end()) {
        if (static_cast<size_t>(found - parameters.begin()) < arguments.positional.size()) {
          fail("macro '{}': argument '{}' is given twice", definition_.name, name);
        }
        runtime.assign(found->name, value);
      } else if (name == "caller") {
        runtime.assign(definition_.caller, value);
      } else if (more != nullptr) {
        runtime.heap().set(*more, runtime.heap().text(name), value);
      } else {
        fail("macro '{}' has no argument '{}'", definition_.name, printable(name, kMaxNameBytes));
      }
    }
    if (more != nullptr) runtime.assign(definition_.kwargs, Value::dict(more));
  }

  bool is_given(const MacroDefinition::Parameter& parameter, const Arguments& arguments) const {
    const auto index = static_cast<size_t>(&parameter - definition_.parameters.data());
    if (index < arguments.positional.size()) return true;
    return std::any_of(arguments.named.begin(), arguments.named.end(),
                       [&](const auto& argument) { return argument.first == *parameter.name; });
  }

  const MacroDefinition& definition_;
  Scope* const scope_;
};

}  // namespace

Flow MacroStatement::run(Runtime& runtime) const {
  runtime.assign(name_, Value::object(runtime.heap().make<Macro>(&definition_, runtime.capture_scope())));
  return Flow::kNext;
}

Flow CallStatement::run(Runtime& runtime) const {
  const Value caller = Value::object(runtime.heap().make<Macro>(&body_, runtime.capture_scope()));
  runtime.write(call_->call(runtime, &caller));
  return Flow::kNext;
}

}  // namespace strata::text::jinja
