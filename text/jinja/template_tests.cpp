// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/template_builtins.hpp"
#include "text/jinja/template_text.hpp"

namespace troupe::jinja {
namespace {

bool is_boolean(const Value& value) { return value.get<bool>() != nullptr; }
bool is_false(const Value& value) { return is_boolean(value) && !*value.get<bool>(); }
bool is_true_itself(const Value& value) { return is_boolean(value) && *value.get<bool>(); }
bool is_callable(const Value& value) {
  return value.get<const Macro*>() || value.get<std::shared_ptr<const Caller>>() || value.get<Builtin>();
}
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_integer(const Value& value) { return value.get<std::int64_t>() != nullptr; }
bool is_float(const Value& value) { return value.get<double>() != nullptr; }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.string() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }

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

bool is_sequence(const Value& value) {
  return value.string() || value.dict() || value.is_undefined() ||
         (value.list() && !value.list()->is_generator);
}

bool is_lower(const Value& value) { return consists_of(to_text(value).text(), CharacterClass::kLower); }

bool is_upper(const Value& value) { return consists_of(to_text(value).text(), CharacterClass::kUpper); }

bool is_even(const Value& value) { return remainder(value, 2) == 0; }
bool is_odd(const Value& value) { return remainder(value, 2) == 1; }

bool differ(const Value& value, const Value& other) { return !are_equal(value, other); }
bool is_less(const Value& value, const Value& other) { return compare(value, other) < 0; }
bool is_at_most(const Value& value, const Value& other) { return compare(value, other) <= 0; }
bool is_greater(const Value& value, const Value& other) { return compare(value, other) > 0; }
bool is_at_least(const Value& value, const Value& other) { return compare(value, other) >= 0; }
bool is_in(const Value& value, const Value& other) { return contains(other, value); }

bool is_divisible(const Value& value, const Arguments& arguments, Budget&) {
  return remainder(value, arguments.require(0, "num").as_integer()) == 0;
}

// A test of a value alone.
template <bool (*kHolds)(const Value&)>
bool alone(const Value& value, const Arguments&, Budget&) {
  return kHolds(value);
}

// A test of a value against another one.
template <bool (*kHolds)(const Value&, const Value&)>
bool against(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value& other = arguments.require(0, "other");
  budget.spend_steps(std::min(weight(value), weight(other)));
  return kHolds(value, other);
}

constexpr std::array<std::pair<std::string_view, Test>, 38> kTests = {{
    {"!=", against<differ>},
    {"<", against<is_less>},
    {"<=", against<is_at_most>},
    {"==", against<are_equal>},
    {">", against<is_greater>},
    {">=", against<is_at_least>},
    {"boolean", alone<is_boolean>},
    {"callable", alone<is_callable>},
    {"defined", alone<is_defined>},
    {"divisibleby", is_divisible},
    {"eq", against<are_equal>},
    {"equalto", against<are_equal>},
    {"even", alone<is_even>},
    {"false", alone<is_false>},
    {"float", alone<is_float>},
    {"ge", against<is_at_least>},
    {"greaterthan", against<is_greater>},
    {"gt", against<is_greater>},
    {"in", against<is_in>},
    {"integer", alone<is_integer>},
    {"iterable", alone<is_iterable>},
    {"le", against<is_at_most>},
    {"lessthan", against<is_less>},
    {"lower", alone<is_lower>},
    {"lt", against<is_less>},
    {"mapping", alone<is_mapping>},
    {"ne", against<differ>},
    {"none", alone<is_none>},
    {"number", alone<is_number>},
    {"odd", alone<is_odd>},
    {"sameas", against<are_equal>},
    {"sequence", alone<is_sequence>},
    {"string", alone<is_string>},
    {"true", alone<is_true_itself>},
    {"undefined", alone<is_undefined>},
    {"upper", alone<is_upper>},
    {"False", alone<is_false>},
    {"True", alone<is_true_itself>},
}};

}  // namespace

Test test_named(std::string_view name) {
  const auto found =
      std::find_if(kTests.begin(), kTests.end(), [&](const auto& entry) { return entry.first == name; });
  return found != kTests.end() ? found->second : nullptr;
}

}  // namespace troupe::jinja
