// Arguments of calls, filters and tests, and how a function takes them.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace strata::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments under the names of a function's parameters.
class Bound {
 public:
  // Fails when there are too many arguments, unknown or repeated names, or one of the first `n_required` is missing.
  Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> parameters,
        size_t n_required = 0);

  bool has(size_t parameter) const { return given_[parameter] != nullptr; }
  const Value& operator[](size_t parameter) const { return *given_[parameter]; }  // of one that has()
  Value get(size_t parameter, const Value& fallback) const { return has(parameter) ? *given_[parameter] : fallback; }
  bool flag(size_t parameter, bool fallback) const { return has(parameter) ? truthy(*given_[parameter]) : fallback; }
  // These fail for values of another kind.
  int64_t integer(size_t parameter, int64_t fallback) const;
  const MarkedText& text(size_t parameter) const;

 private:
  [[noreturn]] void wrong_kind(size_t parameter, const char* wanted) const;
  const char* function_;
  std::vector<const char*> parameters_;
  std::vector<const Value*> given_;
};

}  // namespace strata::text::jinja
