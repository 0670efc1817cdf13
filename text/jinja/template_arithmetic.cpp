// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "text/jinja/template_builtins.hpp"
#include "text/jinja/template_text.hpp"

namespace troupe::jinja {
namespace {

constexpr std::int64_t kMaxExponent = 1'000;

[[noreturn]] void fail_operands(std::string_view sign, const Value& left, const Value& right) {
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  fail(in_quotes(sign) + " can't be applied to " + in_quotes(type_name(left)) + " and " +
       in_quotes(type_name(right)));
}

Value concatenation(const MarkedString& left, const MarkedString& right, Budget& budget) {
  budget.spend_bytes(left.size() + right.size());
  MarkedString result;
  result.reserve(left.size() + right.size());
  result.append(left);
  result.append(right);
  return result;
}

Value joined_lists(const List& left, const List& right, Budget& budget) {
  budget.spend_steps(left.elements.size() + right.elements.size());
  std::vector<Value> elements = left.elements;
  elements.insert(elements.end(), right.elements.begin(), right.elements.end());
  return Value::list(std::move(elements), left.is_tuple);
}

Value repeated(const Value& value, std::int64_t count, Budget& budget) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (const MarkedString* string = value.string()) {
    std::size_t size = 0;
    if (__builtin_mul_overflow(string->size(), times, &size)) fail("a string is too long");
    budget.spend_bytes(size);
    MarkedString result;
    for (std::size_t i = 0; i < times && !string->empty(); ++i) result.append(*string);
    return result;
  }
  const List& list = *value.list();
  std::size_t size = 0;
  if (__builtin_mul_overflow(list.elements.size(), times, &size)) fail("a list is too long");
  budget.spend_steps(size);
  std::vector<Value> elements;
  for (std::size_t i = 0; i < times && !list.elements.empty(); ++i) {
    elements.insert(elements.end(), list.elements.begin(), list.elements.end());
  }
  return Value::list(std::move(elements), list.is_tuple);
}

// The result of one of __builtin_…_overflow.
template <class Operation>
std::int64_t checked(Operation operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (operation(a, b, result)) fail("a number is too large");
  return result;
}

using Integer = std::int64_t;
constexpr auto kAdd = [](Integer a, Integer b, Integer& r) { return __builtin_add_overflow(a, b, &r); };
constexpr auto kSubtract = [](Integer a, Integer b, Integer& r) { return __builtin_sub_overflow(a, b, &r); };
constexpr auto kMultiply = [](Integer a, Integer b, Integer& r) { return __builtin_mul_overflow(a, b, &r); };

// Towards minus infinity, as Python divides.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) return checked(kSubtract, 0, a);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result = checked(kMultiply, result, base);
  return result;
}

Value integer_result(BinaryOperator op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case BinaryOperator::kAdd: return checked(kAdd, a, b);
    case BinaryOperator::kSubtract: return checked(kSubtract, a, b);
    case BinaryOperator::kMultiply: return checked(kMultiply, a, b);
    case BinaryOperator::kFloorDivide: return floor_quotient(a, b);
    case BinaryOperator::kModulo: return b == -1 ? std::int64_t{0} : a - floor_quotient(a, b) * b;
    case BinaryOperator::kPower:
      if (b > kMaxExponent) fail("an exponent is too large");
      if (b >= 0) return power(a, b);
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    default:
      if (b == 0) fail("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
  }
}

Value float_result(BinaryOperator op, double a, double b) {
  const bool divides =
      op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide || op == BinaryOperator::kModulo;
  if (divides && b == 0) fail("division by zero");
  switch (op) {
    case BinaryOperator::kAdd: return a + b;
    case BinaryOperator::kSubtract: return a - b;
    case BinaryOperator::kMultiply: return a * b;
    case BinaryOperator::kFloorDivide: return std::floor(a / b);
    case BinaryOperator::kModulo: return a - std::floor(a / b) * b;
    case BinaryOperator::kPower: return std::pow(a, b);
    default: return a / b;
  }
}

std::string_view sign_of(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd: return "+";
    case BinaryOperator::kSubtract: return "-";
    case BinaryOperator::kMultiply: return "*";
    case BinaryOperator::kDivide: return "/";
    case BinaryOperator::kFloorDivide: return "//";
    case BinaryOperator::kModulo: return "%";
    case BinaryOperator::kPower: return "**";
    case BinaryOperator::kConcatenate: return "~";
  }
  return "";
}

// Python's slice.indices().
struct SliceBounds {
  std::int64_t begin, end, step;
};

SliceBounds bounds_of(const Value& begin, const Value& end, const Value& step, std::int64_t length) {
  const auto is_open = [](const Value& value) { return value.is_undefined() || value.is_none(); };
  SliceBounds bounds{};
  bounds.step = is_open(step) ? 1 : step.as_integer();
  if (bounds.step == 0) fail("slice step cannot be zero");
  // Beyond this the step leaves any slice at once, and can't overflow.
  bounds.step = std::clamp<std::int64_t>(bounds.step, -(1LL << 40), 1LL << 40);
  const bool is_forward = bounds.step > 0;
  const std::int64_t lowest = is_forward ? 0 : -1;
  const std::int64_t highest = is_forward ? length : length - 1;
  const auto bound = [&](const Value& value, std::int64_t open) {
    if (is_open(value)) return open;
    const std::int64_t given = value.as_integer();
    return std::clamp(given < 0 ? given + length : given, lowest, highest);
  };
  bounds.begin = bound(begin, is_forward ? lowest : highest);
  bounds.end = bound(end, is_forward ? highest : lowest);
  return bounds;
}

Value slice_of_string(const MarkedString& string, const Value& begin, const Value& end, const Value& step,
                      Budget& budget) {
  budget.spend_bytes(string.size());
  const std::vector<std::size_t> offsets = character_offsets(string.text());
  const auto length = static_cast<std::int64_t>(offsets.size()) - 1;
  const SliceBounds bounds = bounds_of(begin, end, step, length);
  const auto at = [&](std::int64_t i) { return offsets[static_cast<std::size_t>(i)]; };
  if (bounds.step == 1) {
    if (bounds.begin >= bounds.end) return MarkedString();
    return string.substring(at(bounds.begin), at(bounds.end));
  }
  MarkedString result;
  for (std::int64_t i = bounds.begin; bounds.step > 0 ? i < bounds.end : i > bounds.end; i += bounds.step) {
    result.append(string, at(i), at(i + 1));
  }
  return result;
}

}  // namespace

Value apply_binary(BinaryOperator op, const Value& left, const Value& right, Budget& budget) {
  if (op == BinaryOperator::kConcatenate) {
    budget.spend_steps(weight(left) + weight(right));
    return concatenation(to_text(left), to_text(right), budget);
  }
  if (left.is_number() && right.is_number()) {
    if (left.is_integer() && right.is_integer()) {
      return integer_result(op, left.as_integer(), right.as_integer());
    }
    return float_result(op, left.as_double(), right.as_double());
  }
  if (op == BinaryOperator::kAdd) {
    if (left.string() && right.string()) {
      return concatenation(*left.string(), *right.string(), budget);
    }
    if (left.list() && right.list() && left.list()->is_tuple == right.list()->is_tuple) {
      return joined_lists(*left.list(), *right.list(), budget);
    }
  }
  if (op == BinaryOperator::kMultiply) {
    if ((left.string() || left.list()) && right.is_integer()) {
      return repeated(left, right.as_integer(), budget);
    }
    if ((right.string() || right.list()) && left.is_integer()) {
      return repeated(right, left.as_integer(), budget);
    }
  }
  fail_operands(sign_of(op), left, right);
}

Value apply_unary(UnaryOperator op, const Value& operand) {
  if (op == UnaryOperator::kNot) return !is_true(operand);
  if (operand.is_undefined()) fail_undefined(operand);
  if (!operand.is_number()) fail("a '" + type_name(operand) + "' has no sign");
  if (op == UnaryOperator::kPlus) return operand;
  if (operand.is_integer()) return integer_result(BinaryOperator::kSubtract, 0, operand.as_integer());
  return -operand.as_double();
}

bool apply_comparison(ComparisonOperator op, const Value& left, const Value& right, Budget& budget) {
  budget.spend_steps(op == ComparisonOperator::kIn || op == ComparisonOperator::kNotIn
                         ? weight(right)
                         : std::min(weight(left), weight(right)));
  switch (op) {
    case ComparisonOperator::kEqual: return are_equal(left, right);
    case ComparisonOperator::kNotEqual: return !are_equal(left, right);
    case ComparisonOperator::kLess: return compare(left, right) < 0;
    case ComparisonOperator::kLessOrEqual: return compare(left, right) <= 0;
    case ComparisonOperator::kGreater: return compare(left, right) > 0;
    case ComparisonOperator::kGreaterOrEqual: return compare(left, right) >= 0;
    case ComparisonOperator::kIn: return contains(right, left);
    case ComparisonOperator::kNotIn: return !contains(right, left);
  }
  return false;
}

Value item_of(const Value& value, const Value& index, Budget& budget) {
  if (const Dict* dict = value.dict()) {
    budget.spend_steps(dict->entries.size() / 16);
    const Value* found = dict->find(index);
    return found != nullptr ? *found : Value();
  }
  if (value.is_undefined()) fail_undefined(value);
  const bool has_attributes = value.get<std::shared_ptr<Namespace>>() || value.get<std::shared_ptr<Loop>>();
  if (has_attributes && index.string() != nullptr) {
    Value found = attribute_of(value, index.string()->text());
    return found.is_undefined() ? Value() : found;  // it would know the name, which is not of the program
  }
  if (!index.is_integer()) return Value();
  std::int64_t position = index.as_integer();
  if (const List* list = value.list(); list != nullptr && !list->is_generator) {
    const auto length = static_cast<std::int64_t>(list->elements.size());
    if (position < 0) position += length;
    if (position < 0 || position >= length) return Value();
    return list->elements[static_cast<std::size_t>(position)];
  }
  if (const MarkedString* string = value.string()) {
    budget.spend_bytes(string->size());
    const std::vector<std::size_t> offsets = character_offsets(string->text());
    const auto length = static_cast<std::int64_t>(offsets.size()) - 1;
    if (position < 0) position += length;
    if (position < 0 || position >= length) return Value();
    const auto i = static_cast<std::size_t>(position);
    return string->substring(offsets[i], offsets[i + 1]);
  }
  return Value();
}

Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget) {
  if (const MarkedString* string = value.string()) {
    return slice_of_string(*string, begin, end, step, budget);
  }
  if (value.is_undefined()) fail_undefined(value);
  const List* list = value.list();
  if (list == nullptr || list->is_generator) fail(in_quotes(type_name(value)) + " can't be sliced");
  budget.spend_steps(list->elements.size() / 8);
  const SliceBounds bounds = bounds_of(begin, end, step, static_cast<std::int64_t>(list->elements.size()));
  std::vector<Value> elements;
  for (std::int64_t i = bounds.begin; bounds.step > 0 ? i < bounds.end : i > bounds.end; i += bounds.step) {
    elements.push_back(list->elements[static_cast<std::size_t>(i)]);
  }
  return Value::list(std::move(elements), list->is_tuple);
}

}  // namespace troupe::jinja
