#include "text/jinja/expressions.h"

#include "text/jinja/operators.h"

namespace strata::text::jinja {

Value Expression::evaluate(Runtime& runtime) const {
  try {
    const DepthGuard guard(runtime);
    runtime.heap().step();
    return value(runtime);
  } catch (Failure& failure) {
    failure.locate(at_);
    throw;
  }
}

Arguments ArgumentNodes::evaluate(Runtime& runtime) const {
  Arguments out;
  for (const ExpressionPtr& node : positional) out.positional.push_back(node->evaluate(runtime));
  if (more_positional != nullptr) {
    for (const Value& value : iterate(runtime, more_positional->evaluate(runtime))) out.positional.push_back(value);
  }
  for (const auto& [name, node] : named) out.named.emplace_back(name, node->evaluate(runtime));
  if (more_named != nullptr) {
    const Value more = more_named->evaluate(runtime);
    if (!more.is(Kind::kDict)) fail("what follows ** must be a mapping, not {}", more.description());
    for (const Dict::Entry& entry : more.entries().entries()) {
      if (!entry.key.is_string()) fail("keys of what follows ** must be strings, not {}", entry.key.description());
      runtime.heap().take_memory(entry.key.text().size());
      out.named.emplace_back(entry.key.bytes(), entry.value);
    }
  }
  return out;
}

Value ListNode::value(Runtime& runtime) const {
  std::vector<Value> values;
  for (const ExpressionPtr& item : items_) values.push_back(item->evaluate(runtime));
  return is_tuple_ ? runtime.heap().tuple(std::move(values)) : runtime.heap().list(std::move(values));
}

Value DictNode::value(Runtime& runtime) const {
  Dict* dict = runtime.heap().dict();
  for (const auto& [key, node] : entries_) {
    const Value key_value = key->evaluate(runtime);
    runtime.heap().set(*dict, key_value, node->evaluate(runtime));
  }
  return Value::dict(dict);
}

Value ItemNode::value(Runtime& runtime) const {
  const Value object = object_->evaluate(runtime);
  return get_item(runtime, object, key_->evaluate(runtime));
}

Value SliceNode::value(Runtime& runtime) const {
  const auto bound = [&](const ExpressionPtr& node) -> std::optional<int64_t> {
    if (node == nullptr) return std::nullopt;
    const Value value = node->evaluate(runtime);
    if (value.is(Kind::kNull)) return std::nullopt;
    if (!value.is(Kind::kInt) && !value.is(Kind::kBool)) {
      fail("bounds of a slice must be integers, not {}", value.description());
    }
    return value.as_int();
  };
  const Value object = object_->evaluate(runtime);
  const auto start = bound(bounds_.start);
  const auto stop = bound(bounds_.stop);
  return slice(runtime.heap(), object, start, stop, bound(bounds_.step));
}

Value CallNode::call(Runtime& runtime, const Value* caller) const {
  const Value callee = callee_->evaluate(runtime);
  Arguments arguments = arguments_.evaluate(runtime);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call_value(runtime, callee, arguments);
}

Value FilterNode::apply(Runtime& runtime, const Value& input) const {
  if (filter_ == nullptr) fail("there is no filter '{}'", printable(name_, kMaxNameBytes));
  return filter_(runtime, input, arguments_.evaluate(runtime));
}

Value TestNode::value(Runtime& runtime) const {
  if (test_ == nullptr) fail("there is no test '{}'", printable(name_, kMaxNameBytes));
  const Value input = input_->evaluate(runtime);
  return Value::boolean(test_(runtime, input, arguments_.evaluate(runtime)));
}

Value BinaryNode::value(Runtime& runtime) const {
  const Value left = left_->evaluate(runtime);
  return apply_(runtime.heap(), left, right_->evaluate(runtime));
}

Value CompareNode::value(Runtime& runtime) const {
  Value left = first_->evaluate(runtime);
  for (const auto& [holds, node] : links_) {
    const Value right = node->evaluate(runtime);
    if (!holds(runtime.heap(), left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value LogicNode::value(Runtime& runtime) const {
  const Value left = left_->evaluate(runtime);
  return truthy(left) == is_or_ ? left : right_->evaluate(runtime);
}

Value ConditionalNode::value(Runtime& runtime) const {
  if (truthy(condition_->evaluate(runtime))) return then_->evaluate(runtime);
  return otherwise_ == nullptr ? Value::undefined() : otherwise_->evaluate(runtime);
}

}  // namespace strata::text::jinja
