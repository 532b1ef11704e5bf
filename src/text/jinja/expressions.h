// Nodes of expressions. Immutable once parsed; a template can be rendered by several threads at once.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/filters/filter.h"
#include "text/jinja/runtime.h"
#include "text/jinja/tests/test.h"

namespace strata::text::jinja {

class Expression {
 public:
  explicit Expression(Position at) : at_(at) {}
  virtual ~Expression() = default;
  // Counts a step, guards the depth, and tells failures where they happened.
  Value evaluate(Runtime& runtime) const;
  Position at() const { return at_; }

 protected:
  virtual Value value(Runtime& runtime) const = 0;

 private:
  Position at_;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

struct ArgumentNodes {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *list and **mapping; may be null

  Arguments evaluate(Runtime& runtime) const;
};

// Numbers, truth values, none.
class Literal final : public Expression {
 public:
  Literal(Position at, Value constant) : Expression(at), constant_(constant) {}
  Value value(Runtime&) const override { return constant_; }

 private:
  const Value constant_;
};

class StringNode final : public Expression {
 public:
  StringNode(Position at, std::string text) : Expression(at), text_(MarkedText(std::move(text))) {}
  Value value(Runtime&) const override { return Value::string(&text_); }

 private:
  const Text text_;
};

class NameNode final : public Expression {
 public:
  NameNode(Position at, Name name) : Expression(at), name_(name) {}
  Value value(Runtime& runtime) const override { return runtime.look_up(name_); }
  Name name() const { return name_; }

 private:
  const Name name_;
};

class ListNode final : public Expression {
 public:
  ListNode(Position at, std::vector<ExpressionPtr> items, bool is_tuple)
      : Expression(at), items_(std::move(items)), is_tuple_(is_tuple) {}
  Value value(Runtime& runtime) const override;

 private:
  const std::vector<ExpressionPtr> items_;
  const bool is_tuple_;
};

class DictNode final : public Expression {
 public:
  using Entries = std::vector<std::pair<ExpressionPtr, ExpressionPtr>>;
  DictNode(Position at, Entries entries) : Expression(at), entries_(std::move(entries)) {}
  Value value(Runtime& runtime) const override;

 private:
  const Entries entries_;
};

class AttributeNode final : public Expression {
 public:
  AttributeNode(Position at, ExpressionPtr object, std::string name)
      : Expression(at), object_(std::move(object)), name_(std::move(name)) {}
  Value value(Runtime& runtime) const override { return get_attribute(runtime, object_->evaluate(runtime), name_); }

 private:
  const ExpressionPtr object_;
  const std::string name_;
};

class ItemNode final : public Expression {
 public:
  ItemNode(Position at, ExpressionPtr object, ExpressionPtr key)
      : Expression(at), object_(std::move(object)), key_(std::move(key)) {}
  Value value(Runtime& runtime) const override;

 private:
  const ExpressionPtr object_, key_;
};

class SliceNode final : public Expression {
 public:
  struct Bounds {
    ExpressionPtr start, stop, step;  // null where left out
  };
  SliceNode(Position at, ExpressionPtr object, Bounds bounds)
      : Expression(at), object_(std::move(object)), bounds_(std::move(bounds)) {}
  Value value(Runtime& runtime) const override;

 private:
  const ExpressionPtr object_;
  const Bounds bounds_;
};

class CallNode final : public Expression {
 public:
  CallNode(Position at, ExpressionPtr callee, ArgumentNodes arguments)
      : Expression(at), callee_(std::move(callee)), arguments_(std::move(arguments)) {}
  Value value(Runtime& runtime) const override { return call(runtime, nullptr); }
  // With the body of a call block as argument `caller`, if there is one.
  Value call(Runtime& runtime, const Value* caller) const;

 private:
  const ExpressionPtr callee_;
  const ArgumentNodes arguments_;
};

class FilterNode final : public Expression {
 public:
  // A filter that does not exist fails only when it is applied. `input` may be null for the filter of a block.
  FilterNode(Position at, ExpressionPtr input, std::string name, ArgumentNodes arguments)
      : Expression(at), input_(std::move(input)), name_(std::move(name)), filter_(find_filter(name_)),
        arguments_(std::move(arguments)) {}
  Value value(Runtime& runtime) const override { return apply(runtime, input_->evaluate(runtime)); }
  Value apply(Runtime& runtime, const Value& input) const;

 private:
  const ExpressionPtr input_;
  const std::string name_;
  const FilterFn filter_;
  const ArgumentNodes arguments_;
};

class TestNode final : public Expression {
 public:
  TestNode(Position at, ExpressionPtr input, std::string name, ArgumentNodes arguments)
      : Expression(at), input_(std::move(input)), name_(std::move(name)), test_(find_test(name_)),
        arguments_(std::move(arguments)) {}
  Value value(Runtime& runtime) const override;

 private:
  const ExpressionPtr input_;
  const std::string name_;
  const TestFn test_;
  const ArgumentNodes arguments_;
};

using UnaryFn = Value (*)(const Value& operand);
class UnaryNode final : public Expression {
 public:
  UnaryNode(Position at, UnaryFn apply, ExpressionPtr operand)
      : Expression(at), apply_(apply), operand_(std::move(operand)) {}
  Value value(Runtime& runtime) const override { return apply_(operand_->evaluate(runtime)); }

 private:
  const UnaryFn apply_;
  const ExpressionPtr operand_;
};

using BinaryFn = Value (*)(Heap& heap, const Value& left, const Value& right);
class BinaryNode final : public Expression {
 public:
  BinaryNode(Position at, BinaryFn apply, ExpressionPtr left, ExpressionPtr right)
      : Expression(at), apply_(apply), left_(std::move(left)), right_(std::move(right)) {}
  Value value(Runtime& runtime) const override;

 private:
  const BinaryFn apply_;
  const ExpressionPtr left_, right_;
};

// a < b < c: each operand is evaluated once, and no more of them than needed.
using CompareFn = bool (*)(Heap& heap, const Value& left, const Value& right);
class CompareNode final : public Expression {
 public:
  using Links = std::vector<std::pair<CompareFn, ExpressionPtr>>;
  CompareNode(Position at, ExpressionPtr first, Links links)
      : Expression(at), first_(std::move(first)), links_(std::move(links)) {}
  Value value(Runtime& runtime) const override;

 private:
  const ExpressionPtr first_;
  const Links links_;
};

// `and`, `or`: the operand that decides.
class LogicNode final : public Expression {
 public:
  LogicNode(Position at, bool is_or, ExpressionPtr left, ExpressionPtr right)
      : Expression(at), is_or_(is_or), left_(std::move(left)), right_(std::move(right)) {}
  Value value(Runtime& runtime) const override;

 private:
  const bool is_or_;
  const ExpressionPtr left_, right_;
};

class ConditionalNode final : public Expression {
 public:
  // `otherwise` is null where there is no else: then the value is undefined.
  ConditionalNode(Position at, ExpressionPtr condition, ExpressionPtr then, ExpressionPtr otherwise)
      : Expression(at), condition_(std::move(condition)), then_(std::move(then)), otherwise_(std::move(otherwise)) {}
  Value value(Runtime& runtime) const override;

 private:
  const ExpressionPtr condition_, then_, otherwise_;
};

}  // namespace strata::text::jinja
