// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "text/template_builtins.hpp"
#include "text/template_text.hpp"

namespace troupe::jinja {
namespace {

constexpr std::array<std::pair<std::string_view, Test>, 38> kTests = {{
    {"!=", Test::kNotEqual},
    {"<", Test::kLess},
    {"<=", Test::kLessOrEqual},
    {"==", Test::kEqual},
    {">", Test::kGreater},
    {">=", Test::kGreaterOrEqual},
    {"boolean", Test::kBoolean},
    {"callable", Test::kCallable},
    {"defined", Test::kDefined},
    {"divisibleby", Test::kDivisibleby},
    {"eq", Test::kEqual},
    {"equalto", Test::kEqual},
    {"even", Test::kEven},
    {"false", Test::kFalse},
    {"float", Test::kFloat},
    {"ge", Test::kGreaterOrEqual},
    {"greaterthan", Test::kGreater},
    {"gt", Test::kGreater},
    {"in", Test::kIn},
    {"integer", Test::kInteger},
    {"iterable", Test::kIterable},
    {"le", Test::kLessOrEqual},
    {"lessthan", Test::kLess},
    {"lower", Test::kLower},
    {"lt", Test::kLess},
    {"mapping", Test::kMapping},
    {"ne", Test::kNotEqual},
    {"none", Test::kNone},
    {"number", Test::kNumber},
    {"odd", Test::kOdd},
    {"sameas", Test::kSameas},
    {"sequence", Test::kSequence},
    {"string", Test::kString},
    {"true", Test::kTrue},
    {"undefined", Test::kUndefined},
    {"upper", Test::kUpper},
    {"False", Test::kFalse},
    {"True", Test::kTrue},
}};

bool is_truth(const Value& value, bool truth) {
  const bool* found = value.get<bool>();
  return found != nullptr && *found == truth;
}

std::int64_t remainder(const Value& value, std::int64_t divisor) {
  if (divisor == 0) fail("division by zero");
  if (divisor == -1) return 0;
  const std::int64_t rest = value.as_integer() % divisor;
  return rest < 0 ? rest + std::abs(divisor) : rest;
}

bool is_iterable(const Value& value) {
  return value.string() || value.list() || value.dict() || value.is_undefined() ||
         value.get<std::shared_ptr<Loop>>();
}

}  // namespace

std::optional<Test> test_named(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == kTests.end()) return std::nullopt;
  return found->second;
}

bool apply_test(Test test, const Value& value, const Arguments& arguments, Budget& budget) {
  const auto other = [&]() -> const Value& {
    const Value& argument = arguments.require(0, "other");
    budget.spend_steps(std::min(weight(value), weight(argument)));
    return argument;
  };
  switch (test) {
    case Test::kBoolean:
      return value.get<bool>() != nullptr;
    case Test::kCallable:
      return value.get<const Macro*>() || value.get<Builtin>();
    case Test::kDefined:
      return !value.is_undefined();
    case Test::kDivisibleby:
      return remainder(value, arguments.require(0, "num").as_integer()) == 0;
    case Test::kEqual:
      return are_equal(value, other());
    case Test::kEven:
      return remainder(value, 2) == 0;
    case Test::kFalse:
      return is_truth(value, false);
    case Test::kFloat:
      return value.get<double>() != nullptr;
    case Test::kGreater:
      return compare(value, other()) > 0;
    case Test::kGreaterOrEqual:
      return compare(value, other()) >= 0;
    case Test::kIn:
      return contains(other(), value);
    case Test::kInteger:
      return value.get<std::int64_t>() != nullptr;
    case Test::kIterable:
      return is_iterable(value);
    case Test::kLess:
      return compare(value, other()) < 0;
    case Test::kLessOrEqual:
      return compare(value, other()) <= 0;
    case Test::kLower:
      return consists_of(to_text(value).text(), CharacterClass::kLower);
    case Test::kMapping:
      return value.dict() != nullptr;
    case Test::kNone:
      return value.is_none();
    case Test::kNotEqual:
      return !are_equal(value, other());
    case Test::kNumber:
      return value.is_number();
    case Test::kOdd:
      return remainder(value, 2) == 1;
    case Test::kSameas:
      return are_equal(value, other());
    case Test::kSequence:
      return value.string() || value.dict() || value.is_undefined() ||
             (value.list() && !value.list()->is_generator);
    case Test::kString:
      return value.string() != nullptr;
    case Test::kTrue:
      return is_truth(value, true);
    case Test::kUndefined:
      return value.is_undefined();
    case Test::kUpper:
      return consists_of(to_text(value).text(), CharacterClass::kUpper);
  }
  return false;
}

}  // namespace troupe::jinja
