// Values of a template while it is rendered. All that is not a plain number lives in the Heap of the rendering and goes
// with it: lists may contain themselves, and chains of any length are freed without recursion.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/limits.h"
#include "text/jinja/marked_text.h"

namespace strata::text::jinja {

class Runtime;
class Value;
struct Arguments;

enum class Kind : uint8_t { kUndefined, kNull, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kObject };

// What the heap owns.
struct Allocation {
  virtual ~Allocation() = default;
};

struct Text final : Allocation {
  explicit Text(MarkedText text) : marked(std::move(text)) {}
  const MarkedText marked;
};

struct List;
class Dict;

// Macros, functions, methods bound to a value, loop, namespaces and the like.
struct Object : Allocation {
  virtual const char* type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, const Arguments& arguments);
  // nullopt where there is none of this name.
  virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name);
};

class Value {
 public:
  Value() : kind_(Kind::kUndefined), name_(nullptr) {}
  // Undefined; `name` (for messages, may be null) must live as long as the value.
  static Value undefined(const std::string* name = nullptr);
  static Value null();
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value number(double value);
  static Value string(const Text* text);
  static Value list(List* list);
  static Value tuple(List* list);
  static Value dict(Dict* dict);
  static Value object(Object* object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_string() const { return is(Kind::kString); }
  bool is_list() const { return is(Kind::kList) || is(Kind::kTuple); }
  bool is_number() const { return is(Kind::kInt) || is(Kind::kFloat) || is(Kind::kBool); }

  bool as_bool() const { return bool_; }
  int64_t as_int() const { return is(Kind::kBool) ? bool_ : int_; }  // kInt, kBool
  double as_double() const { return is(Kind::kFloat) ? double_ : static_cast<double>(as_int()); }  // any number
  const MarkedText& text() const { return text_->marked; }
  const std::string& bytes() const { return text_->marked.bytes(); }
  List& items() const { return *list_; }
  Dict& entries() const { return *dict_; }
  Object& object() const { return *object_; }
  const std::string* undefined_name() const { return name_; }
  // Whether both are the same thing in memory, for `is sameas`; for plain values, whether they are equal.
  bool same_as(const Value& other) const;

  // "a string", "undefined 'x'": for messages.
  std::string description() const;

 private:
  Kind kind_;
  union {
    const std::string* name_;
    bool bool_;
    int64_t int_;
    double double_;
    const Text* text_;
    List* list_;
    Dict* dict_;
    Object* object_;
  };
};

struct List final : Allocation {
  std::vector<Value> items;
};

// Ordered; keys are null, truth values, numbers and strings. As in Python, 1, 1.0 and true are one key.
class Dict final : public Allocation {
 public:
  struct Entry {
    Value key, value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // null where there is none; for keys of other kinds, too.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the value of an existing key, which keeps its place. Fails for keys of other kinds.
  void set(const Value& key, const Value& value);

 private:
  const Value* find_hashed(const std::string& hashed) const;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // by hashed form
};

// Equal for equal keys; nullopt for what can't be a key.
std::optional<std::string> hashed_form(const Value& key);

// Owns the values of one rendering and counts what they cost; fails when it gets too much.
class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits), memory_left_(limits.memory_bytes), steps_left_(limits.steps) {}

  const Limits& limits() const { return limits_; }
  void take_memory(size_t bytes) {
    if (bytes > memory_left_) memory_exhausted();
    memory_left_ -= bytes;
  }
  void step(int64_t n = 1) {
    if ((steps_left_ -= n) < 0) steps_exhausted();
  }
  // For work that grows with a text.
  void look_at(size_t bytes) { step(static_cast<int64_t>(bytes / 64) + 1); }

  Value text(MarkedText text);
  Value text(std::string bytes) { return this->text(MarkedText(std::move(bytes))); }
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  Dict* dict();
  // Every addition to a list or dict is counted here, before it is made.
  void append(List& list, const Value& value);
  void set(Dict& dict, const Value& key, const Value& value);
  // A copy of a name that messages about undefined values may refer to.
  Value undefined(std::string name);

  template <class T, class... Args>
  T* make(Args&&... args) {
    take_memory(sizeof(T) + sizeof(void*));
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = owned.get();
    owned_.push_back(std::move(owned));
    return raw;
  }

 private:
  [[noreturn]] void memory_exhausted() const;
  [[noreturn]] void steps_exhausted() const;
  List* make_list(std::vector<Value> items);

  const Limits limits_;
  size_t memory_left_;
  int64_t steps_left_;
  std::vector<std::unique_ptr<Allocation>> owned_;
};

// As Python's bool().
bool truthy(const Value& value);
// As Python's == (texts are compared without their marks).
bool equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
// <0, 0, >0; fails for kinds that have no order.
int compare(Heap& heap, const Value& a, const Value& b, int depth = 0);

}  // namespace strata::text::jinja
