// Macros and call blocks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja/statements.h"

namespace strata::text::jinja {

struct MacroDefinition {
  struct Parameter {
    Name name;
    ExpressionPtr fallback;  // null for none
  };
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  Name caller, varargs, kwargs;  // these names
};

// {% macro name(parameters) %}...{% endmacro %}
class MacroStatement final : public Statement {
 public:
  MacroStatement(Position at, Name name, MacroDefinition definition)
      : Statement(at), name_(name), definition_(std::move(definition)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const Name name_;
  const MacroDefinition definition_;
};

// {% call(parameters) macro(arguments) %}...{% endcall %}: the macro calls the body as caller(arguments).
class CallStatement final : public Statement {
 public:
  CallStatement(Position at, std::unique_ptr<const CallNode> call, MacroDefinition body)
      : Statement(at), call_(std::move(call)), body_(std::move(body)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const std::unique_ptr<const CallNode> call_;
  const MacroDefinition body_;
};

}  // namespace strata::text::jinja
