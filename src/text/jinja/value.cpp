#include "text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace strata::text::jinja {
namespace {

constexpr size_t kEntryBytes = 128;  // of a dict, with its index

void check_depth(int depth) {
  if (depth > kMaxNesting) fail("a value is nested more than {} deep", kMaxNesting);
}

// Of x86-64's long double, which holds every int64 and every double.
long double exact(const Value& number) {
  return number.is(Kind::kFloat) ? static_cast<long double>(number.as_double())
                                 : static_cast<long double>(number.as_int());
}

int compare_numbers(const Value& a, const Value& b) {
  const long double x = exact(a);
  const long double y = exact(b);
  return x < y ? -1 : x > y ? 1 : 0;
}

bool equal_numbers(const Value& a, const Value& b) {
  return exact(a) == exact(b);
}

bool equal_lists(Heap& heap, const List& a, const List& b, int depth) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(heap, a.items[i], b.items[i], depth)) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const Dict& a, const Dict& b, int depth) {
  if (a.size() != b.size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.find(entry.key);
    if (other == nullptr || !equal(heap, entry.value, *other, depth)) return false;
  }
  return true;
}

}  // namespace

Value Object::call(Runtime&, const Arguments&) { fail("{} can't be called", type_name()); }
std::optional<Value> Object::attribute(Runtime&, std::string_view) { return std::nullopt; }

Value Value::undefined(const std::string* name) {
  Value out;
  out.name_ = name;
  return out;
}
Value Value::null() {
  Value out;
  out.kind_ = Kind::kNull;
  return out;
}
Value Value::boolean(bool value) {
  Value out;
  out.kind_ = Kind::kBool;
  out.bool_ = value;
  return out;
}
Value Value::integer(int64_t value) {
  Value out;
  out.kind_ = Kind::kInt;
  out.int_ = value;
  return out;
}
Value Value::number(double value) {
  Value out;
  out.kind_ = Kind::kFloat;
  out.double_ = value;
  return out;
}
Value Value::string(const Text* text) {
  Value out;
  out.kind_ = Kind::kString;
  out.text_ = text;
  return out;
}
Value Value::list(List* list) {
  Value out;
  out.kind_ = Kind::kList;
  out.list_ = list;
  return out;
}
Value Value::tuple(List* list) {
  Value out = Value::list(list);
  out.kind_ = Kind::kTuple;
  return out;
}
Value Value::dict(Dict* dict) {
  Value out;
  out.kind_ = Kind::kDict;
  out.dict_ = dict;
  return out;
}
Value Value::object(Object* object) {
  Value out;
  out.kind_ = Kind::kObject;
  out.object_ = object;
  return out;
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNull: return true;
    case Kind::kBool: return bool_ == other.bool_;
    case Kind::kInt: return int_ == other.int_;
    case Kind::kFloat: return double_ == other.double_;
    case Kind::kString: return bytes() == other.bytes();
    case Kind::kList:
    case Kind::kTuple: return list_ == other.list_;
    case Kind::kDict: return dict_ == other.dict_;
    case Kind::kObject: return object_ == other.object_;
  }
  return false;
}

std::string Value::description() const {
  switch (kind_) {
    case Kind::kUndefined:
      return name_ == nullptr ? "an undefined value" : format("undefined '{}'", printable(*name_, kMaxNameBytes));
    case Kind::kNull: return "none";
    case Kind::kBool: return "a boolean";
    case Kind::kInt: return "an integer";
    case Kind::kFloat: return "a float";
    case Kind::kString: return "a string";
    case Kind::kList: return "a list";
    case Kind::kTuple: return "a tuple";
    case Kind::kDict: return "a mapping";
    case Kind::kObject: return object_->type_name();
  }
  return "";
}

std::optional<std::string> hashed_form(const Value& key) {
  switch (key.kind()) {
    case Kind::kString: return "s" + key.bytes();
    case Kind::kNull: return "n";
    case Kind::kBool:
    case Kind::kInt: return "i" + std::to_string(key.as_int());
    case Kind::kFloat: {
      const double value = key.as_double();
      if (value == std::floor(value) && std::abs(value) < 9.0e18) {
        return "i" + std::to_string(static_cast<int64_t>(value));
      }
      return "f" + std::to_string(std::bit_cast<uint64_t>(value));
    }
    default: return std::nullopt;
  }
}

const Value* Dict::find_hashed(const std::string& hashed) const {
  const auto found = index_.find(hashed);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

const Value* Dict::find(const Value& key) const {
  const auto hashed = hashed_form(key);
  return hashed ? find_hashed(*hashed) : nullptr;
}

const Value* Dict::find(std::string_view key) const { return find_hashed("s" + std::string(key)); }

void Dict::set(const Value& key, const Value& value) {
  auto hashed = hashed_form(key);
  if (!hashed) fail("{} can't be a key of a mapping", key.description());
  const auto [at, added] = index_.emplace(*std::move(hashed), entries_.size());
  if (added) {
    entries_.push_back({key, value});
  } else {
    entries_[at->second].value = value;
  }
}

void Heap::memory_exhausted() const {
  fail("the template needs more than {} of memory", format_bytes(limits_.memory_bytes));
}
void Heap::steps_exhausted() const { fail("the template needs more than {} steps", limits_.steps); }

Value Heap::text(MarkedText text) {
  take_memory(text.cost());
  return Value::string(make<Text>(std::move(text)));
}

List* Heap::make_list(std::vector<Value> items) {
  if (items.size() > limits_.list_items) fail("a list would have more than {} items", limits_.list_items);
  take_memory(items.size() * sizeof(Value));
  List* list = make<List>();
  list->items = std::move(items);
  return list;
}

Value Heap::list(std::vector<Value> items) { return Value::list(make_list(std::move(items))); }
Value Heap::tuple(std::vector<Value> items) { return Value::tuple(make_list(std::move(items))); }
Dict* Heap::dict() { return make<Dict>(); }

void Heap::append(List& list, const Value& value) {
  if (list.items.size() >= limits_.list_items) fail("a list would have more than {} items", limits_.list_items);
  take_memory(sizeof(Value));
  list.items.push_back(value);
}

void Heap::set(Dict& dict, const Value& key, const Value& value) {
  if (dict.size() >= limits_.list_items) fail("a mapping would have more than {} entries", limits_.list_items);
  take_memory(kEntryBytes + (key.is_string() ? key.text().size() : 0));
  dict.set(key, value);
}

Value Heap::undefined(std::string name) {
  return Value::undefined(&text(std::move(name)).bytes());
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNull: return false;
    case Kind::kBool: return value.as_bool();
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kString: return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.items().items.empty();
    case Kind::kDict: return value.entries().size() != 0;
    case Kind::kObject: return true;
  }
  return false;
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  heap.step();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      heap.look_at(a.text().size());
      return a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple: return equal_lists(heap, a.items(), b.items(), depth + 1);
    case Kind::kDict: return equal_dicts(heap, a.entries(), b.entries(), depth + 1);
    default: return a.same_as(b);
  }
}

int compare(Heap& heap, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  heap.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    heap.look_at(std::min(a.text().size(), b.text().size()));
    // Bytes of UTF-8 are in the order of their code points.
    return a.bytes().compare(b.bytes());
  }
  if (a.is_list() && a.kind() == b.kind()) {
    const auto& x = a.items().items;
    const auto& y = b.items().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(heap, x[i], y[i], depth + 1)) return compare(heap, x[i], y[i], depth + 1);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  fail("{} and {} have no order", a.description(), b.description());
}

}  // namespace strata::text::jinja
