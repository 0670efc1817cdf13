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

#include "text/jinja/template_runtime.hpp"

namespace troupe::jinja {

struct Arguments {
  std::vector<Value> positional;
  // Names may be a client's: the keys of what is behind **.
  std::vector<std::pair<MarkedString, Value>> named;

  // The argument at a position or of that name; nullptr where it wasn't given.
  const Value* find(std::size_t position, std::string_view name) const;
  // … and where it must be.
  const Value& require(std::size_t position, std::string_view name) const;

  // A named one, which must not be there yet.
  void add(MarkedString name, Value value, Budget& budget);
  // All entries of a dict, named by its keys.
  void add_all(const Value& dict, Budget& budget);
};

// Functions that a template may write behind "|" and behind "is".
using Filter = Value (*)(const Value& value, const Arguments& arguments, Budget& budget);
using Test = bool (*)(const Value& value, const Arguments& arguments, Budget& budget);

// nullptr where we have none of that name.
Filter filter_named(std::string_view name);
Test test_named(std::string_view name);
std::optional<Builtin> builtin_named(std::string_view name);

// value.name where it is not called; undefined where there is none. `name` is of
// the program and outlives the value.
Value attribute_of(const Value& value, const std::string& name);

// value.name(arguments) of strings, lists and dicts.
Value call_method(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget);
// Calls a function every template has, by `now` where it asks for the time.
Value call_builtin(Builtin builtin, const Arguments& arguments, std::chrono::system_clock::time_point now,
                   Budget& budget);

}  // namespace troupe::jinja
