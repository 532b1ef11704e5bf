// Something that can be called, by reference: what std::function is to values, without the memory that it may take.
// It is valid as long as what it was made from, so it serves as a parameter, or as a member of one.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace strata {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class Callable>
    requires(!std::is_same_v<Callable, FunctionRef> && std::is_invocable_r_v<R, const Callable&, Args...>)
  FunctionRef(const Callable& callable)
      : callable_(std::addressof(callable)), call_([](const void* called, Args... args) -> R {
          return (*static_cast<const Callable*>(called))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  const void* callable_;
  R (*call_)(const void*, Args...);
};

}  // namespace strata
