#include "text/jinja/arguments.h"

#include <algorithm>

namespace strata::text::jinja {

Bound::Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> parameters,
             size_t n_required)
    : function_(function), parameters_(parameters), given_(parameters.size(), nullptr) {
  if (arguments.positional.size() > parameters_.size()) {
    fail("{} takes at most {} arguments, not {}", function, parameters_.size(), arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) given_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    if (found == parameters_.end()) fail("{} has no argument '{}'", function, printable(name, kMaxNameBytes));
    const Value*& slot = given_[static_cast<size_t>(found - parameters_.begin())];
    if (slot != nullptr) fail("{}: argument '{}' is given twice", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (!has(i)) fail("{} needs the argument '{}'", function, parameters_[i]);
  }
}

void Bound::wrong_kind(size_t parameter, const char* wanted) const {
  fail("{}: argument '{}' must be {}, not {}", function_, parameters_[parameter], wanted,
       given_[parameter]->description());
}

int64_t Bound::integer(size_t parameter, int64_t fallback) const {
  if (!has(parameter)) return fallback;
  if (!given_[parameter]->is(Kind::kInt) && !given_[parameter]->is(Kind::kBool)) wrong_kind(parameter, "an integer");
  return given_[parameter]->as_int();
}

const MarkedText& Bound::text(size_t parameter) const {
  if (!given_[parameter]->is_string()) wrong_kind(parameter, "a string");
  return given_[parameter]->text();
}

}  // namespace strata::text::jinja
