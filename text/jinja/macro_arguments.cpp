// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/macro_arguments.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace troupe::jinja {
namespace {

const std::string kCaller = "caller";

// The named argument, which is no longer in the list then.
std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                  [&](const auto& entry) { return entry.first.text() == name; });
  if (found == arguments.named.end()) return std::nullopt;
  Value value = std::move(found->second);
  arguments.named.erase(found);
  return value;
}

std::string described(const Macro& macro) { return "macro '" + macro.name + "'"; }

Value rest_of_positional(std::vector<Value>& positional, std::size_t begin) {
  begin = std::min(begin, positional.size());
  std::vector<Value> rest(std::make_move_iterator(positional.begin() + static_cast<std::ptrdiff_t>(begin)),
                          std::make_move_iterator(positional.end()));
  return Value::list(std::move(rest), true);
}

Value dict_of_named(Arguments& arguments) {
  Dict dict;
  for (auto& [name, value] : arguments.named) {
    dict.entries.emplace_back(std::move(name), std::move(value));  // names are distinct
  }
  return Value::dict(std::move(dict));
}

}  // namespace

MacroArguments arguments_by_name(const Macro& macro, Arguments arguments) {
  const std::size_t num_parameters = macro.parameters.size();
  const std::size_t num_positional = arguments.positional.size();
  if (num_positional > num_parameters && !macro.reads_varargs) {
    fail(described(macro) + " takes at most " + std::to_string(num_parameters) + " arguments");
  }
  MacroArguments result;
  for (std::size_t i = 0; i < num_parameters; ++i) {
    const bool is_positional = i < num_positional;
    result.parameters.push_back(is_positional ? std::optional(std::move(arguments.positional[i]))
                                              : take_named(arguments, macro.parameters[i]));
  }
  if (macro.reads_caller) {
    const std::optional<Value> caller = take_named(arguments, kCaller);
    result.others.emplace_back(kCaller, caller.value_or(Undefined{&kCaller}));
  }
  if (macro.reads_varargs) {
    result.others.emplace_back("varargs", rest_of_positional(arguments.positional, num_parameters));
  }
  if (macro.reads_kwargs) {
    result.others.emplace_back("kwargs", dict_of_named(arguments));
  } else if (!arguments.named.empty()) {
    const std::string& name = arguments.named.front().first.text();
    if (name == kCaller) fail(described(macro) + " calls no caller(), so it takes no call block");
    fail(described(macro) + " has no parameter '" + name + "', or has it twice");
  }
  return result;
}

}  // namespace troupe::jinja
