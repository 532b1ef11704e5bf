// Operators of expressions, with Python's meaning. They fail for operands that Python refuses; what is undefined is
// refused everywhere but by ~, ==, != and as the right side of `in`.
#pragma once

#include <optional>

#include "text/jinja/value.h"

namespace strata::text::jinja {

Value add(Heap& heap, const Value& left, const Value& right);
Value subtract(Heap& heap, const Value& left, const Value& right);
Value multiply(Heap& heap, const Value& left, const Value& right);
Value divide(Heap& heap, const Value& left, const Value& right);
Value floor_divide(Heap& heap, const Value& left, const Value& right);
Value modulo(Heap& heap, const Value& left, const Value& right);
Value power(Heap& heap, const Value& left, const Value& right);
Value concatenate(Heap& heap, const Value& left, const Value& right);

Value negate(const Value& operand);
Value unary_plus(const Value& operand);
Value logical_not(const Value& operand);

bool is_equal(Heap& heap, const Value& left, const Value& right);
bool is_not_equal(Heap& heap, const Value& left, const Value& right);
bool is_less(Heap& heap, const Value& left, const Value& right);
bool is_less_or_equal(Heap& heap, const Value& left, const Value& right);
bool is_greater(Heap& heap, const Value& left, const Value& right);
bool is_greater_or_equal(Heap& heap, const Value& left, const Value& right);
bool is_in(Heap& heap, const Value& left, const Value& right);
bool is_not_in(Heap& heap, const Value& left, const Value& right);

// value[start:stop:step] of a string, list or tuple.
Value slice(Heap& heap, const Value& value, std::optional<int64_t> start, std::optional<int64_t> stop,
            std::optional<int64_t> step);

}  // namespace strata::text::jinja
