#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/methods/format.h"
#include "text/jinja/notation.h"
#include "text/jinja/text_builder.h"

namespace strata::text::jinja {
namespace {

[[noreturn]] void refuse(const char* sign, const Value& left, const Value& right) {
  fail("'{}' does not take {} and {}", sign, left.description(), right.description());
}
[[noreturn]] void overflow(const char* sign) { fail("the result of '{}' does not fit 64 bits", sign); }

bool both_numbers(const Value& left, const Value& right) { return left.is_number() && right.is_number(); }
bool any_float(const Value& left, const Value& right) { return left.is(Kind::kFloat) || right.is(Kind::kFloat); }

Value joined_lists(Heap& heap, const Value& left, const Value& right) {
  const auto& a = left.items().items;
  const auto& b = right.items().items;
  heap.take_memory((a.size() + b.size()) * sizeof(Value));
  heap.step(static_cast<int64_t>(a.size() + b.size()));
  std::vector<Value> items = a;
  items.insert(items.end(), b.begin(), b.end());
  return left.is(Kind::kTuple) ? heap.tuple(std::move(items)) : heap.list(std::move(items));
}

Value joined_texts(Heap& heap, const MarkedText& left, const MarkedText& right) {
  TextBuilder out(heap);
  out.append(left);
  out.append(right);
  return out.finish();
}

Value repeated(Heap& heap, const Value& value, int64_t times) {
  if (value.is_string()) {
    TextBuilder out(heap);
    for (int64_t i = 0; i < times && !value.text().empty(); ++i) {
      heap.step();
      out.append(value.text());
    }
    return out.finish();
  }
  Value out = value.is(Kind::kTuple) ? heap.tuple({}) : heap.list({});
  for (int64_t i = 0; i < times && !value.items().items.empty(); ++i) {
    for (size_t k = 0; k < value.items().items.size(); ++k) {
      heap.step();
      heap.append(out.items(), value.items().items[k]);
    }
  }
  return out;
}

void refuse_zero(const Value& right) {
  if (right.as_double() == 0) fail("division by zero");
}

// Both towards minus infinity, as Python has it.
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
double floor_remainder(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Value integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow("**");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow("**");
  }
  return Value::integer(result);
}

int ordered(Heap& heap, const char* sign, const Value& left, const Value& right) {
  const bool comparable = both_numbers(left, right) || (left.is_string() && right.is_string()) ||
                          (left.is_list() && left.kind() == right.kind());
  if (!comparable) refuse(sign, left, right);
  return compare(heap, left, right);
}
bool has_nan(const Value& left, const Value& right) {
  return (left.is(Kind::kFloat) && std::isnan(left.as_double())) ||
         (right.is(Kind::kFloat) && std::isnan(right.as_double()));
}

// Indices as Python clamps them.
struct Steps {
  int64_t start, stop, step;
};
Steps clamped(int64_t size, std::optional<int64_t> start, std::optional<int64_t> stop, std::optional<int64_t> step) {
  const int64_t by = step.value_or(1);
  if (by == 0) fail("the step of a slice can't be 0");
  const int64_t low = by < 0 ? -1 : 0;
  const int64_t high = by < 0 ? size - 1 : size;
  const auto clamp = [&](int64_t index) {
    if (index < 0) index = std::max(index, -size - 1) + size;
    return std::clamp(index, low, high);
  };
  return {start ? clamp(*start) : (by < 0 ? high : low), stop ? clamp(*stop) : (by < 0 ? low : high), by};
}

template <class Take>
void visit(Heap& heap, const Steps& steps, const Take& take) {
  for (int64_t i = steps.start; steps.step > 0 ? i < steps.stop : i > steps.stop;) {
    heap.step();
    take(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, steps.step, &i)) return;
  }
}

Value slice_text(Heap& heap, const MarkedText& text, std::optional<int64_t> start, std::optional<int64_t> stop,
                 std::optional<int64_t> step) {
  const std::vector<size_t> starts = character_starts(heap, text.bytes());
  const Steps steps = clamped(static_cast<int64_t>(starts.size()) - 1, start, stop, step);
  TextBuilder out(heap);
  if (steps.step == 1) {
    if (steps.start < steps.stop) {
      out.append(text, starts[static_cast<size_t>(steps.start)], starts[static_cast<size_t>(steps.stop)]);
    }
    return out.finish();
  }
  visit(heap, steps, [&](size_t i) { out.append(text, starts[i], starts[i + 1]); });
  return out.finish();
}

}  // namespace

Value add(Heap& heap, const Value& left, const Value& right) {
  if (both_numbers(left, right)) {
    if (any_float(left, right)) return Value::number(left.as_double() + right.as_double());
    int64_t sum;
    if (__builtin_add_overflow(left.as_int(), right.as_int(), &sum)) overflow("+");
    return Value::integer(sum);
  }
  if (left.is_string() && right.is_string()) return joined_texts(heap, left.text(), right.text());
  if (left.is_list() && left.kind() == right.kind()) return joined_lists(heap, left, right);
  refuse("+", left, right);
}

Value subtract(Heap&, const Value& left, const Value& right) {
  if (!both_numbers(left, right)) refuse("-", left, right);
  if (any_float(left, right)) return Value::number(left.as_double() - right.as_double());
  int64_t difference;
  if (__builtin_sub_overflow(left.as_int(), right.as_int(), &difference)) overflow("-");
  return Value::integer(difference);
}

Value multiply(Heap& heap, const Value& left, const Value& right) {
  if (both_numbers(left, right)) {
    if (any_float(left, right)) return Value::number(left.as_double() * right.as_double());
    int64_t product;
    if (__builtin_mul_overflow(left.as_int(), right.as_int(), &product)) overflow("*");
    return Value::integer(product);
  }
  const auto repeatable = [](const Value& value, const Value& times) {
    return (value.is_string() || value.is_list()) && (times.is(Kind::kInt) || times.is(Kind::kBool));
  };
  if (repeatable(left, right)) return repeated(heap, left, right.as_int());
  if (repeatable(right, left)) return repeated(heap, right, left.as_int());
  refuse("*", left, right);
}

Value divide(Heap&, const Value& left, const Value& right) {
  if (!both_numbers(left, right)) refuse("/", left, right);
  refuse_zero(right);
  return Value::number(left.as_double() / right.as_double());
}

Value floor_divide(Heap&, const Value& left, const Value& right) {
  if (!both_numbers(left, right)) refuse("//", left, right);
  refuse_zero(right);
  if (any_float(left, right)) return Value::number(std::floor(left.as_double() / right.as_double()));
  if (left.as_int() == INT64_MIN && right.as_int() == -1) overflow("//");
  return Value::integer(floor_quotient(left.as_int(), right.as_int()));
}

Value modulo(Heap& heap, const Value& left, const Value& right) {
  if (left.is_string()) return format_percent(heap, left.text(), right);
  if (!both_numbers(left, right)) refuse("%", left, right);
  refuse_zero(right);
  if (any_float(left, right)) return Value::number(floor_remainder(left.as_double(), right.as_double()));
  if (right.as_int() == -1) return Value::integer(0);
  const int64_t remainder = left.as_int() % right.as_int();
  return Value::integer(remainder != 0 && (remainder < 0) != (right.as_int() < 0) ? remainder + right.as_int()
                                                                                   : remainder);
}

Value power(Heap&, const Value& left, const Value& right) {
  if (!both_numbers(left, right)) refuse("**", left, right);
  if (!any_float(left, right) && right.as_int() >= 0) return integer_power(left.as_int(), right.as_int());
  const double result = std::pow(left.as_double(), right.as_double());
  if (!std::isfinite(result)) fail("the result of '**' is not a number");
  return Value::number(result);
}

Value concatenate(Heap& heap, const Value& left, const Value& right) {
  return joined_texts(heap, to_string(heap, left).text(), to_string(heap, right).text());
}

Value negate(const Value& operand) {
  if (!operand.is_number()) fail("'-' does not take {}", operand.description());
  if (operand.is(Kind::kFloat)) return Value::number(-operand.as_double());
  int64_t negative;
  if (__builtin_sub_overflow(int64_t{0}, operand.as_int(), &negative)) overflow("-");
  return Value::integer(negative);
}

Value unary_plus(const Value& operand) {
  if (!operand.is_number()) fail("'+' does not take {}", operand.description());
  return operand.is(Kind::kFloat) ? operand : Value::integer(operand.as_int());
}

Value logical_not(const Value& operand) { return Value::boolean(!truthy(operand)); }

bool is_equal(Heap& heap, const Value& left, const Value& right) { return equal(heap, left, right); }
bool is_not_equal(Heap& heap, const Value& left, const Value& right) { return !equal(heap, left, right); }
bool is_less(Heap& heap, const Value& left, const Value& right) {
  return ordered(heap, "<", left, right) < 0 && !has_nan(left, right);
}
bool is_less_or_equal(Heap& heap, const Value& left, const Value& right) {
  return ordered(heap, "<=", left, right) <= 0 && !has_nan(left, right);
}
bool is_greater(Heap& heap, const Value& left, const Value& right) {
  return ordered(heap, ">", left, right) > 0 && !has_nan(left, right);
}
bool is_greater_or_equal(Heap& heap, const Value& left, const Value& right) {
  return ordered(heap, ">=", left, right) >= 0 && !has_nan(left, right);
}

bool is_in(Heap& heap, const Value& left, const Value& right) {
  switch (right.kind()) {
    case Kind::kUndefined: return false;
    case Kind::kString:
      if (!left.is_string()) refuse("in", left, right);
      heap.look_at(right.text().size());
      return find_text(right.bytes(), left.bytes()) != std::string::npos;
    case Kind::kList:
    case Kind::kTuple:
      return std::any_of(right.items().items.begin(), right.items().items.end(),
                         [&](const Value& item) { return equal(heap, left, item); });
    case Kind::kDict: return right.entries().find(left) != nullptr;
    default: refuse("in", left, right);
  }
}
bool is_not_in(Heap& heap, const Value& left, const Value& right) { return !is_in(heap, left, right); }

Value slice(Heap& heap, const Value& value, std::optional<int64_t> start, std::optional<int64_t> stop,
            std::optional<int64_t> step) {
  if (value.is_string()) return slice_text(heap, value.text(), start, stop, step);
  if (value.is_undefined()) fail("{} has no items", value.description());
  if (!value.is_list()) fail("{} can't be sliced", value.description());
  const auto& items = value.items().items;
  Value out = value.is(Kind::kTuple) ? heap.tuple({}) : heap.list({});
  visit(heap, clamped(static_cast<int64_t>(items.size()), start, stop, step),
        [&](size_t i) { heap.append(out.items(), items[i]); });
  return out;
}

}  // namespace strata::text::jinja
