// SPDX-License-Identifier: Apache-2.0
// Filters, tests and methods of values: Jinja's and Python's, as far as chat
// templates use them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_runtime.hpp"

namespace troupe::jinja {

enum class Filter : std::uint8_t {
  kAbs,
  kCapitalize,
  kDefault,
  kDictsort,
  kFirst,
  kFloat,
  kFromJson,
  kIndent,
  kInt,
  kItems,
  kJoin,
  kLast,
  kLength,
  kList,
  kLower,
  kMap,
  kMax,
  kMin,
  kReject,
  kRejectattr,
  kReplace,
  kReverse,
  kRound,
  kSafe,
  kSelect,
  kSelectattr,
  kSort,
  kString,
  kSum,
  kTitle,
  kTojson,
  kTrim,
  kUnique,
  kUpper,
};

enum class Test : std::uint8_t {
  kBoolean,
  kCallable,
  kDefined,
  kDivisibleby,
  kEqual,
  kEven,
  kFalse,
  kFloat,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kInteger,
  kIterable,
  kLess,
  kLessOrEqual,
  kLower,
  kMapping,
  kNone,
  kNotEqual,
  kNumber,
  kOdd,
  kSameas,
  kSequence,
  kString,
  kTrue,
  kUndefined,
  kUpper,
};

// nullopt where we have none of that name.
std::optional<Filter> filter_named(std::string_view name);
std::optional<Test> test_named(std::string_view name);
std::optional<Builtin> builtin_named(std::string_view name);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at a position or of that name; nullptr where it wasn't given.
  const Value* find(std::size_t position, std::string_view name) const;
  // … and where it must be.
  const Value& require(std::size_t position, std::string_view name) const;
};

// value.name where it is not called; undefined where there is none. `name` is of
// the program and outlives the value.
Value attribute_of(const Value& value, const std::string& name);

Value apply_filter(Filter filter, const Value& value, const Arguments& arguments, Budget& budget);
bool apply_test(Test test, const Value& value, const Arguments& arguments, Budget& budget);
// value.name(arguments) of strings, lists and dicts.
Value call_method(const Value& value, const std::string& name, const Arguments& arguments,
                  Budget& budget);
// Calls a function every template has, by `now` where it asks for the time.
Value call_builtin(Builtin builtin, const Arguments& arguments,
                   std::chrono::system_clock::time_point now, Budget& budget);

}  // namespace troupe::jinja
