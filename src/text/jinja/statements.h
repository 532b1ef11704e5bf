// Nodes of statements. Immutable once parsed.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/expressions.h"

namespace strata::text::jinja {

// What a statement wants of the loop around it.
enum class Flow { kNext, kBreak, kContinue };

class Statement {
 public:
  explicit Statement(Position at) : at_(at) {}
  virtual ~Statement() = default;
  // As Expression::evaluate.
  Flow execute(Runtime& runtime) const;

 protected:
  virtual Flow run(Runtime& runtime) const = 0;

 private:
  Position at_;
};
using StatementPtr = std::unique_ptr<const Statement>;
using Block = std::vector<StatementPtr>;

Flow execute_block(Runtime& runtime, const Block& block);
// What the block writes, as a string value; break and continue end it.
Value capture_block(Runtime& runtime, const Block& block);

// Where `set` and `for` put values: a name, an attribute of a namespace, or several of them.
class Target {
 public:
  virtual ~Target() = default;
  virtual void assign(Runtime& runtime, const Value& value) const = 0;
};
using TargetPtr = std::unique_ptr<const Target>;

class NameTarget final : public Target {
 public:
  explicit NameTarget(Name name) : name_(name) {}
  void assign(Runtime& runtime, const Value& value) const override { runtime.assign(name_, value); }

 private:
  const Name name_;
};

class AttributeTarget final : public Target {
 public:
  AttributeTarget(Name object, std::string attribute) : object_(object), attribute_(std::move(attribute)) {}
  void assign(Runtime& runtime, const Value& value) const override;

 private:
  const Name object_;
  const std::string attribute_;
};

class TupleTarget final : public Target {
 public:
  explicit TupleTarget(std::vector<TargetPtr> parts) : parts_(std::move(parts)) {}
  void assign(Runtime& runtime, const Value& value) const override;

 private:
  const std::vector<TargetPtr> parts_;
};

class TextStatement final : public Statement {
 public:
  TextStatement(Position at, std::string text) : Statement(at), text_(std::move(text)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const MarkedText text_;
};

class PrintStatement final : public Statement {
 public:
  PrintStatement(Position at, ExpressionPtr expression) : Statement(at), expression_(std::move(expression)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const ExpressionPtr expression_;
};

class IfStatement final : public Statement {
 public:
  struct Branch {
    ExpressionPtr condition;  // null for else
    Block body;
  };
  IfStatement(Position at, std::vector<Branch> branches) : Statement(at), branches_(std::move(branches)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const std::vector<Branch> branches_;
};

class ForStatement final : public Statement {
 public:
  struct Parts {
    TargetPtr target;
    ExpressionPtr iterable;
    ExpressionPtr condition;  // null for none
    Block body;
    Block otherwise;          // for no item at all
    Name loop;                // the name "loop"
  };
  ForStatement(Position at, Parts parts) : Statement(at), parts_(std::move(parts)) {}

 private:
  Flow run(Runtime& runtime) const override;
  std::vector<Value> selected_items(Runtime& runtime) const;
  const Parts parts_;
};

// {% break %} and {% continue %}.
class FlowStatement final : public Statement {
 public:
  FlowStatement(Position at, Flow flow) : Statement(at), flow_(flow) {}

 private:
  Flow run(Runtime&) const override { return flow_; }
  const Flow flow_;
};

class SetStatement final : public Statement {
 public:
  SetStatement(Position at, TargetPtr target, ExpressionPtr value)
      : Statement(at), target_(std::move(target)), value_(std::move(value)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const TargetPtr target_;
  const ExpressionPtr value_;
};

using FilterChain = std::vector<std::unique_ptr<const FilterNode>>;

// {% set x %}...{% endset %}, and with a null target {% filter f %}...{% endfilter %}, which writes the result.
class CaptureStatement final : public Statement {
 public:
  CaptureStatement(Position at, TargetPtr target, FilterChain filters, Block body)
      : Statement(at), target_(std::move(target)), filters_(std::move(filters)), body_(std::move(body)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const TargetPtr target_;
  const FilterChain filters_;
  const Block body_;
};

// {% with a = b %}...{% endwith %}.
class ScopeStatement final : public Statement {
 public:
  using Assignments = std::vector<std::pair<TargetPtr, ExpressionPtr>>;
  ScopeStatement(Position at, Assignments assignments, Block body)
      : Statement(at), assignments_(std::move(assignments)), body_(std::move(body)) {}

 private:
  Flow run(Runtime& runtime) const override;
  const Assignments assignments_;
  const Block body_;
};

// {% generation %}...{% endgeneration %} marks what a model wrote, which matters to training only.
class GenerationStatement final : public Statement {
 public:
  GenerationStatement(Position at, Block body) : Statement(at), body_(std::move(body)) {}

 private:
  Flow run(Runtime& runtime) const override { return execute_block(runtime, body_); }
  const Block body_;
};

}  // namespace strata::text::jinja
