// Filters that make something of the items of a value.
#include <algorithm>
#include <unordered_set>

#include "text/jinja/filters/filter.h"
#include "text/jinja/notation.h"
#include "text/jinja/operators.h"
#include "text/jinja/order.h"
#include "text/jinja/texts.h"

namespace strata::text::jinja {
namespace {

Value list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return runtime.heap().list(iterate(runtime, input));
}

Value first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  const std::vector<Value> items = iterate(runtime, input);
  return items.empty() ? Value::undefined() : items.front();
}

Value last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  const std::vector<Value> items = iterate(runtime, input);
  return items.empty() ? Value::undefined() : items.back();
}

Value length(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  switch (input.kind()) {
    case Kind::kUndefined: return Value::integer(0);
    case Kind::kString:
      runtime.heap().look_at(input.text().size());
      return Value::integer(count_characters(input.bytes()));
    case Kind::kList:
    case Kind::kTuple: return Value::integer(static_cast<int64_t>(input.items().items.size()));
    case Kind::kDict: return Value::integer(static_cast<int64_t>(input.entries().size()));
    default: fail("{} has no length", input.description());
  }
}

Value reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  if (input.is_string()) return slice(runtime.heap(), input, std::nullopt, std::nullopt, -1);
  std::vector<Value> items = iterate(runtime, input);
  std::reverse(items.begin(), items.end());
  return runtime.heap().list(std::move(items));
}

Value join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  std::vector<Value> items = iterate(runtime, input);
  if (bound.has(1) && !bound[1].is(Kind::kNull)) {
    for (Value& item : items) item = attribute_path(runtime, item, bound[1]);
  }
  const MarkedText separator = bound.has(0) ? to_text(runtime.heap(), bound[0]) : MarkedText();
  return join_texts(runtime.heap(), items, separator);
}

Value items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  if (input.is_undefined()) return runtime.heap().list({});
  if (!input.is(Kind::kDict)) fail("items takes a mapping, not {}", input.description());
  return dict_items(runtime, input.entries());
}

Value sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool by_attribute = bound.has(2) && !bound[2].is(Kind::kNull);
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(runtime, input)) {
    const Value key = by_attribute ? attribute_path(runtime, item, bound[2]) : item;
    keyed.push_back({comparable(runtime, key, bound.flag(1, false)), item});
  }
  sort_by_key(runtime, keyed, bound.flag(0, false));
  Value out = runtime.heap().list({});
  for (const Keyed& item : keyed) runtime.heap().append(out.items(), item.value);
  return out;
}

Value dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.is(Kind::kDict)) fail("dictsort takes a mapping, not {}", input.description());
  const std::string by = bound.has(1) ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") {
    fail("dictsort sorts by 'key' or 'value', not by '{}'", printable(by, kMaxNameBytes));
  }
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : input.entries().entries()) {
    const Value key = comparable(runtime, by == "key" ? entry.key : entry.value, bound.flag(0, false));
    keyed.push_back({key, runtime.heap().tuple({entry.key, entry.value})});
  }
  sort_by_key(runtime, keyed, bound.flag(2, false));
  Value out = runtime.heap().list({});
  for (const Keyed& item : keyed) runtime.heap().append(out.items(), item.value);
  return out;
}

Value unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const bool by_attribute = bound.has(1) && !bound[1].is(Kind::kNull);
  std::unordered_set<std::string> seen;
  Value out = runtime.heap().list({});
  for (const Value& item : iterate(runtime, input)) {
    const Value key = by_attribute ? attribute_path(runtime, item, bound[1]) : item;
    const auto hashed = hashed_form(comparable(runtime, key, bound.flag(0, false)));
    if (!hashed) fail("unique can't tell {} apart", key.description());
    runtime.heap().take_memory(hashed->size());
    if (seen.insert(*hashed).second) runtime.heap().append(out.items(), item);
  }
  return out;
}

Value batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = bound.integer(0, 1);
  if (size < 1) fail("batch: {} is not a number of items", size);
  Value out = runtime.heap().list({});
  for (const Value& item : iterate(runtime, input)) {
    const auto& batches = out.items().items;
    if (batches.empty() || static_cast<int64_t>(batches.back().items().items.size()) == size) {
      runtime.heap().append(out.items(), runtime.heap().list({}));
    }
    runtime.heap().append(out.items().items.back().items(), item);
  }
  if (bound.has(1) && !bound[1].is(Kind::kNull) && !out.items().items.empty()) {
    List& rest = out.items().items.back().items();
    while (static_cast<int64_t>(rest.items.size()) < size) runtime.heap().append(rest, bound[1]);
  }
  return out;
}

Value sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Value total = bound.get(1, Value::integer(0));
  for (const Value& item : iterate(runtime, input)) {
    const bool by_attribute = bound.has(0) && !bound[0].is(Kind::kNull);
    total = add(runtime.heap(), total, by_attribute ? attribute_path(runtime, item, bound[0]) : item);
  }
  return total;
}

template <bool largest>
Value extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const bool by_attribute = bound.has(1) && !bound[1].is(Kind::kNull);
  Value best, best_key;
  bool found = false;
  for (const Value& item : iterate(runtime, input)) {
    const Value key = comparable(runtime, by_attribute ? attribute_path(runtime, item, bound[1]) : item,
                                 bound.flag(0, false));
    const int order = found ? compare(runtime.heap(), key, best_key) : 0;
    if (found && (largest ? order <= 0 : order >= 0)) continue;
    best = item;
    best_key = key;
    found = true;
  }
  return best;
}

constexpr FilterRow kRows[] = {
    {"list", list},     {"first", first},       {"last", last},     {"length", length}, {"count", length},
    {"reverse", reverse}, {"join", join},       {"items", items},   {"sort", sort},     {"dictsort", dictsort},
    {"unique", unique}, {"batch", batch},       {"sum", sum},       {"min", extreme<false>}, {"max", extreme<true>},
};

}  // namespace

std::span<const FilterRow> list_filters() { return kRows; }

}  // namespace strata::text::jinja
