// range, dict, namespace, joiner, cycler.
#include "text/jinja/functions/function.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {
namespace {

// The entries of a mapping, pairs of a list, and arguments with names.
void fill(Runtime& runtime, const char* function, Dict& dict, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    fail("{} takes one mapping, not {} values", function, arguments.positional.size());
  }
  for (const Value& source : arguments.positional) {
    if (source.is(Kind::kDict)) {
      for (const Dict::Entry& entry : source.entries().entries()) runtime.heap().set(dict, entry.key, entry.value);
      continue;
    }
    for (const Value& pair : iterate(runtime, source)) {
      const std::vector<Value> parts = iterate(runtime, pair);
      if (parts.size() != 2) fail("{} takes pairs of key and value, not {} values", function, parts.size());
      runtime.heap().set(dict, parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) runtime.heap().set(dict, runtime.heap().text(name), value);
}

struct Namespace final : Object {
  const char* type_name() const override { return "a namespace"; }
  std::optional<Value> attribute(Runtime&, std::string_view name) override {
    const Value* found = attributes.find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  Dict attributes;
};

struct Joiner final : Object {
  explicit Joiner(const Value& text) : separator(text) {}
  const char* type_name() const override { return "a joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override {
    const Bound bound("a joiner", arguments, {});
    if (used) return separator;
    used = true;
    return runtime.heap().text(std::string());
  }
  const Value separator;
  bool used = false;
};

struct Cycler final : Object {
  explicit Cycler(std::vector<Value> values) : items(std::move(values)) {}
  const char* type_name() const override { return "a cycler"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  const std::vector<Value> items;
  size_t position = 0;
};

struct CyclerMethod final : Object {
  CyclerMethod(Cycler* owner, bool resets) : cycler(owner), is_reset(resets) {}
  const char* type_name() const override { return "a method"; }
  bool callable() const override { return true; }
  Value call(Runtime&, const Arguments& arguments) override {
    const Bound bound(is_reset ? "reset()" : "next()", arguments, {});
    const Value current = cycler->items[cycler->position];
    cycler->position = is_reset ? 0 : (cycler->position + 1) % cycler->items.size();
    return is_reset ? Value::null() : current;
  }
  Cycler* const cycler;
  const bool is_reset;
};

std::optional<Value> Cycler::attribute(Runtime& runtime, std::string_view name) {
  if (name == "current") return items[position];
  if (name == "next" || name == "reset") {
    return Value::object(runtime.heap().make<CyclerMethod>(this, name == "reset"));
  }
  return std::nullopt;
}

}  // namespace

Value make_range(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("range()", arguments, {"start", "stop", "step"}, 1);
  const int64_t start = bound.has(1) ? bound.integer(0, 0) : 0;
  const int64_t stop = bound.integer(bound.has(1) ? 1 : 0, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) fail("range(): the step can't be 0");
  Value out = runtime.heap().list({});
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    runtime.heap().step();
    runtime.heap().append(out.items(), Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return out;
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  Dict* dict = runtime.heap().dict();
  fill(runtime, "dict()", *dict, arguments);
  return Value::dict(dict);
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  auto* made = runtime.heap().make<Namespace>();
  fill(runtime, "namespace()", made->attributes, arguments);
  return Value::object(made);
}

Value make_joiner(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("joiner()", arguments, {"sep"});
  const Value separator = bound.has(0) ? bound[0] : runtime.heap().text(std::string(", "));
  return Value::object(runtime.heap().make<Joiner>(separator));
}

Value make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail("cycler() takes one item or more");
  return Value::object(runtime.heap().make<Cycler>(arguments.positional));
}

void set_namespace_attribute(Runtime& runtime, const Value& target, const std::string& name, const Value& value) {
  auto* object = target.is(Kind::kObject) ? dynamic_cast<Namespace*>(&target.object()) : nullptr;
  if (object == nullptr) fail("only attributes of a namespace can be set, not those of {}", target.description());
  runtime.heap().set(object->attributes, runtime.heap().text(name), value);
}

}  // namespace strata::text::jinja
