#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/methods/method.h"
#include "text/jinja/notation.h"

namespace strata::text::jinja {
namespace {

constexpr size_t kVariableBytes = 32;

// list[-1] is the last item; nullopt outside of the list.
std::optional<size_t> position_of(int64_t index, size_t size) {
  const auto n = static_cast<int64_t>(size);
  if (index < -n || index >= n) return std::nullopt;
  return static_cast<size_t>(index < 0 ? index + n : index);
}

Value character_at(Heap& heap, const MarkedText& text, int64_t index) {
  const std::vector<size_t> starts = character_starts(heap, text.bytes());
  const auto at = position_of(index, starts.size() - 1);
  if (!at) return Value::undefined();
  return heap.text(text.slice(starts[*at], starts[*at + 1]));
}

}  // namespace

Runtime::Runtime(const Limits& limits, std::function<std::tm()> now)
    : heap_(limits), now_(std::move(now)), scope_(heap_.make<Scope>()) {}

Value Runtime::look_up(Name name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  const auto global = globals_.find(*name);
  return global == globals_.end() ? Value::undefined(name) : global->second;
}

void Runtime::assign(Name name, const Value& value) {
  for (auto& [known, slot] : scope_->variables) {
    if (known != name) continue;
    slot = value;
    return;
  }
  heap_.take_memory(kVariableBytes);
  scope_->variables.emplace_back(name, value);
}

Scope* Runtime::capture_scope() {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  return scope_;
}

void Runtime::write(const MarkedText& text) {
  if (output_->size() + text.size() > heap_.limits().output_bytes) {
    fail("the template writes more than {}", format_bytes(heap_.limits().output_bytes));
  }
  heap_.take_memory(text.cost());
  output_->append(text);
}

void Runtime::write(const Value& value) {
  if (value.is_string()) return write(value.text());
  write(to_text(heap_, value));
}

ScopeGuard::ScopeGuard(Runtime& runtime, Scope* parent) : runtime_(runtime), outer_(runtime.scope_) {
  Scope* scope;
  if (runtime.unused_scopes_.empty()) {
    scope = runtime.heap_.make<Scope>();
  } else {
    scope = runtime.unused_scopes_.back();
    runtime.unused_scopes_.pop_back();
  }
  scope->parent = parent;
  runtime.scope_ = scope;
}

ScopeGuard::~ScopeGuard() {
  Scope* scope = runtime_.scope_;
  runtime_.scope_ = outer_;
  if (scope->captured) return;
  scope->variables.clear();
  runtime_.unused_scopes_.push_back(scope);
}

Value call_value(Runtime& runtime, const Value& callee, const Arguments& arguments) {
  if (!callee.is(Kind::kObject)) fail("{} can't be called", callee.description());
  return callee.object().call(runtime, arguments);
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  Heap& heap = runtime.heap();
  std::vector<Value> out;
  switch (value.kind()) {
    case Kind::kUndefined: return out;
    case Kind::kList:
    case Kind::kTuple:
      heap.take_memory(value.items().items.size() * sizeof(Value));
      heap.step(static_cast<int64_t>(value.items().items.size()));
      return value.items().items;
    case Kind::kDict:
      for (const Dict::Entry& entry : value.entries().entries()) out.push_back(entry.key);
      heap.take_memory(out.size() * sizeof(Value));
      heap.step(static_cast<int64_t>(out.size()));
      return out;
    case Kind::kString: {
      const std::vector<size_t> starts = character_starts(heap, value.bytes());
      for (size_t i = 0; i + 1 < starts.size(); ++i) {
        heap.step();
        out.push_back(heap.text(value.text().slice(starts[i], starts[i + 1])));
      }
      return out;
    }
    default: fail("{} can't be iterated over", value.description());
  }
}

Value dict_items(Runtime& runtime, const Dict& dict) {
  Value out = runtime.heap().list({});
  for (const Dict::Entry& entry : dict.entries()) {
    runtime.heap().step();
    runtime.heap().append(out.items(), runtime.heap().tuple({entry.key, entry.value}));
  }
  return out;
}

Value get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail("{} has no attribute '{}'", value.description(), printable(name, kMaxNameBytes));
  if (value.is(Kind::kObject)) {
    if (const auto found = value.object().attribute(runtime, name)) return *found;
  } else if (const auto method = find_method(runtime, value, name)) {
    return *method;
  }
  if (value.is(Kind::kDict)) {
    if (const Value* found = value.entries().find(name)) return *found;
  }
  if (name.starts_with("__")) {
    fail("the attribute '{}' of {} is out of bounds for templates", printable(name, kMaxNameBytes),
         value.description());
  }
  return runtime.heap().undefined(std::string(name));
}

Value get_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) fail("{} has no items", value.description());
  if (value.is(Kind::kDict)) {
    if (const Value* found = value.entries().find(key)) return *found;
  }
  if (key.is(Kind::kInt) || key.is(Kind::kBool)) {
    if (value.is_string()) return character_at(runtime.heap(), value.text(), key.as_int());
    if (!value.is_list()) return Value::undefined();
    const auto& items = value.items().items;
    const auto at = position_of(key.as_int(), items.size());
    return at ? items[*at] : Value::undefined();
  }
  return key.is_string() ? get_attribute(runtime, value, key.bytes()) : Value::undefined();
}

}  // namespace strata::text::jinja
