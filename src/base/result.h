// Failures as values. Result<T> crosses module borders; nothing throws out of kernels, streams or threads.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace strata {

enum class ErrorCode {
  kBadInput,     // a flag, file or request that can't be right; the user has to change it (exit code 2)
  kNotFound,     // a file or name that does not exist (exit code 2)
  kUnsupported,  // well formed, but not something this program can do (exit code 2)
  kIo,           // reading or writing failed
  kInterrupted,  // EINTR of a single read; read_exact retries it
  kNoMemory,     // an allocation or budget did not suffice
  kCancelled,    // the user or a caller asked to stop
  kInternal,     // a device or our own part failed
};

// 2 for what the user has to change, 1 for everything else.
int exit_code_of(ErrorCode code);

// What was tried, with which file, flag or size, and what to do about it: one line, for people.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { ASSERT(ok()); return *std::get_if<0>(&state_); }
  const T& value() const& { ASSERT(ok()); return *std::get_if<0>(&state_); }
  T&& value() && { ASSERT(ok()); return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { ASSERT(!ok()); return *std::get_if<1>(&state_); }
  Error&& error() && { ASSERT(!ok()); return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { ASSERT(!ok()); return *error_; }
  Error&& error() && { ASSERT(!ok()); return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace strata

#define STRATA_CONCAT_INNER(a, b) a##b
#define STRATA_CONCAT(a, b) STRATA_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(status_expression): hands a failure to the caller.
#define RETURN_IF_ERROR(expression)                                      \
  do {                                                                   \
    if (auto strata_status = (expression); !strata_status.ok())          \
      return std::move(strata_status).error();                           \
  } while (false)

// ASSIGN_OR_RETURN(auto x, result_expression): x takes the value, or the caller gets the failure.
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(STRATA_CONCAT(strata_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return std::move(result).error();      \
  target = std::move(result).value()
