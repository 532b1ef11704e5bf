#include "text/jinja/statements.h"

#include "text/jinja/functions/function.h"
#include "text/jinja/loop.h"

namespace strata::text::jinja {

Flow Statement::execute(Runtime& runtime) const {
  try {
    const DepthGuard guard(runtime);
    runtime.heap().step();
    return run(runtime);
  } catch (Failure& failure) {
    failure.locate(at_);
    throw;
  }
}

Flow execute_block(Runtime& runtime, const Block& block) {
  for (const StatementPtr& statement : block) {
    if (const Flow flow = statement->execute(runtime); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Value capture_block(Runtime& runtime, const Block& block) {
  CaptureGuard capture(runtime);
  execute_block(runtime, block);
  return capture.take();
}

void AttributeTarget::assign(Runtime& runtime, const Value& value) const {
  set_namespace_attribute(runtime, runtime.look_up(object_), attribute_, value);
}

void TupleTarget::assign(Runtime& runtime, const Value& value) const {
  const std::vector<Value> values = iterate(runtime, value);
  if (values.size() != parts_.size()) fail("{} values can't be unpacked into {} names", values.size(), parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->assign(runtime, values[i]);
}

Flow TextStatement::run(Runtime& runtime) const {
  runtime.write(text_);
  return Flow::kNext;
}

Flow PrintStatement::run(Runtime& runtime) const {
  runtime.write(expression_->evaluate(runtime));
  return Flow::kNext;
}

Flow IfStatement::run(Runtime& runtime) const {
  for (const Branch& branch : branches_) {
    if (branch.condition == nullptr || truthy(branch.condition->evaluate(runtime))) {
      return execute_block(runtime, branch.body);
    }
  }
  return Flow::kNext;
}

std::vector<Value> ForStatement::selected_items(Runtime& runtime) const {
  std::vector<Value> items = iterate(runtime, parts_.iterable->evaluate(runtime));
  if (parts_.condition == nullptr) return items;
  std::vector<Value> selected;
  for (const Value& item : items) {
    const ScopeGuard scope(runtime);
    parts_.target->assign(runtime, item);
    if (truthy(parts_.condition->evaluate(runtime))) selected.push_back(item);
  }
  return selected;
}

Flow ForStatement::run(Runtime& runtime) const {
  const std::vector<Value> items = selected_items(runtime);
  if (items.empty()) {
    const ScopeGuard scope(runtime);
    return execute_block(runtime, parts_.otherwise);
  }
  Loop* loop = runtime.heap().make<Loop>(items);
  for (size_t i = 0; i < items.size(); ++i) {
    runtime.heap().step();
    const ScopeGuard scope(runtime);
    loop->move_to(i);
    runtime.assign(parts_.loop, Value::object(loop));
    parts_.target->assign(runtime, items[i]);
    if (execute_block(runtime, parts_.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Flow SetStatement::run(Runtime& runtime) const {
  target_->assign(runtime, value_->evaluate(runtime));
  return Flow::kNext;
}

Flow CaptureStatement::run(Runtime& runtime) const {
  Value value;
  {
    const ScopeGuard scope(runtime);
    value = capture_block(runtime, body_);
  }
  for (const auto& filter : filters_) value = filter->apply(runtime, value);
  if (target_ != nullptr) {
    target_->assign(runtime, value);
  } else {
    runtime.write(value);
  }
  return Flow::kNext;
}

Flow ScopeStatement::run(Runtime& runtime) const {
  std::vector<Value> values;
  for (const auto& [target, expression] : assignments_) values.push_back(expression->evaluate(runtime));
  const ScopeGuard scope(runtime);
  for (size_t i = 0; i < values.size(); ++i) assignments_[i].first->assign(runtime, values[i]);
  return execute_block(runtime, body_);
}

}  // namespace strata::text::jinja
