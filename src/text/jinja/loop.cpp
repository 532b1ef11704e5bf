#include "text/jinja/loop.h"

namespace strata::text::jinja {
namespace {

struct Cycle final : Object {
  explicit Cycle(const Loop* owner) : loop(owner) {}
  const char* type_name() const override { return "a method"; }
  bool callable() const override { return true; }
  Value call(Runtime&, const Arguments& arguments) override {
    if (arguments.positional.empty()) fail("loop.cycle() takes one item or more");
    return arguments.positional[loop->index() % arguments.positional.size()];
  }
  const Loop* const loop;
};

struct Changed final : Object {
  explicit Changed(Loop* owner) : loop(owner) {}
  const char* type_name() const override { return "a method"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override {
    return Value::boolean(loop->changed(runtime.heap(), arguments.positional));
  }
  Loop* const loop;
};

}  // namespace

bool Loop::changed(Heap& heap, const std::vector<Value>& values) {
  bool same = has_last_values_ && values.size() == last_values_.size();
  for (size_t i = 0; same && i < values.size(); ++i) same = equal(heap, values[i], last_values_[i]);
  has_last_values_ = true;
  last_values_ = values;
  return !same;
}

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
  const auto at = static_cast<int64_t>(index_);
  const auto n = static_cast<int64_t>(items_.size());
  if (name == "index") return Value::integer(at + 1);
  if (name == "index0") return Value::integer(at);
  if (name == "revindex") return Value::integer(n - at);
  if (name == "revindex0") return Value::integer(n - at - 1);
  if (name == "first") return Value::boolean(at == 0);
  if (name == "last") return Value::boolean(at == n - 1);
  if (name == "length") return Value::integer(n);
  if (name == "previtem") return at == 0 ? Value::undefined() : items_[index_ - 1];
  if (name == "nextitem") return at == n - 1 ? Value::undefined() : items_[index_ + 1];
  if (name == "cycle") return Value::object(runtime.heap().make<Cycle>(this));
  if (name == "changed") return Value::object(runtime.heap().make<Changed>(this));
  return std::nullopt;
}

}  // namespace strata::text::jinja
