// The state of one rendering: values, variables, output, and what filters and functions need of their surroundings.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

// Names are unique within a template, so they are compared by address.
using Name = const std::string*;

struct Scope final : Allocation {
  Scope* parent = nullptr;
  std::vector<std::pair<Name, Value>> variables;
  bool captured = false;  // a macro refers to it, so it can't be used again
};

class Runtime {
 public:
  Runtime(const Limits& limits, std::function<std::tm()> now);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Heap& heap() { return heap_; }
  std::tm now() const { return now_(); }

  // Variables. Globals are what the template was given, and the functions of functions/.
  void set_global(std::string name, const Value& value) { globals_[std::move(name)] = value; }
  Value look_up(Name name) const;
  void assign(Name name, const Value& value);  // in the innermost scope
  // The innermost scope, which lives as long as this rendering.
  Scope* capture_scope();

  // Output goes to the innermost capture.
  void write(const MarkedText& text);
  void write(const Value& value);
  MarkedText take_output() { return std::move(*output_); }

 private:
  friend class ScopeGuard;
  friend class CaptureGuard;
  friend class DepthGuard;

  Heap heap_;
  std::function<std::tm()> now_;
  std::unordered_map<std::string, Value> globals_;
  Scope* scope_;
  std::vector<Scope*> unused_scopes_;
  MarkedText root_output_;
  MarkedText* output_ = &root_output_;
  int depth_ = 0;
};

// A new scope inside `parent`, or inside the innermost one, until the end of a block.
class ScopeGuard {
 public:
  explicit ScopeGuard(Runtime& runtime) : ScopeGuard(runtime, runtime.scope_) {}
  ScopeGuard(Runtime& runtime, Scope* parent);
  ~ScopeGuard();
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Runtime& runtime_;
  Scope* const outer_;
};

// Collects what is written until the end of a block.
class CaptureGuard {
 public:
  explicit CaptureGuard(Runtime& runtime) : runtime_(runtime), outer_(runtime.output_) { runtime.output_ = &captured_; }
  ~CaptureGuard() { runtime_.output_ = outer_; }
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;
  // A string value.
  Value take() { return Value::string(runtime_.heap().make<Text>(std::move(captured_))); }

 private:
  Runtime& runtime_;
  MarkedText* const outer_;
  MarkedText captured_;
};

// Counts how deep evaluation is, so that it fails before the stack ends.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) {
    if (++runtime.depth_ > runtime.heap_.limits().depth) {
      --runtime.depth_;
      fail("evaluation is nested more than {} deep", runtime.heap_.limits().depth);
    }
  }
  ~DepthGuard() { --runtime_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Runtime& runtime_;
};

// A value called with arguments; fails for what can't be called.
Value call_value(Runtime& runtime, const Value& callee, const Arguments& arguments);

// The items of a list, characters of a string, keys of a mapping; none of an undefined value. Fails for others.
std::vector<Value> iterate(Runtime& runtime, const Value& value);

// A list of (key, value).
Value dict_items(Runtime& runtime, const Dict& dict);

// value.name, and value[key]: data and the methods of methods/, nothing else.
Value get_attribute(Runtime& runtime, const Value& value, std::string_view name);
Value get_item(Runtime& runtime, const Value& value, const Value& key);

}  // namespace strata::text::jinja
