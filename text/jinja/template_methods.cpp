// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "text/jinja/template_builtins.hpp"
#include "text/jinja/template_string_methods.hpp"

namespace troupe::jinja {
namespace {

constexpr std::size_t kMaxRange = 100'000;

constexpr std::array<std::pair<std::string_view, Builtin>, 5> kBuiltins = {{
    {"dict", Builtin::kDict},
    {"namespace", Builtin::kNamespace},
    {"raise_exception", Builtin::kRaiseException},
    {"range", Builtin::kRange},
    {"strftime_now", Builtin::kStrftimeNow},
}};

Value call_dict_method(const Value& value, const std::string& name, const Arguments& arguments,
                       Budget& budget) {
  const Dict& dict = *value.dict();
  budget.spend_steps(1 + dict.entries.size() / 8);
  if (name == "get") {
    const Value* found = dict.find(arguments.require(0, "key"));
    const Value* fallback = arguments.find(1, "default");
    if (found != nullptr) return *found;
    return fallback != nullptr ? *fallback : Value(nullptr);
  }
  std::vector<Value> elements;
  for (const Pair& entry : dict.entries) {
    if (name == "items") {
      elements.push_back(Value::list({entry.first, entry.second}, true));
    } else if (name == "values") {
      elements.push_back(entry.second);
    } else {
      elements.push_back(entry.first);
    }
  }
  if (name == "items" || name == "keys" || name == "values") {
    return Value::list(std::move(elements));
  }
  if (name == "copy") return value;
  fail_no_attribute(value, name);
}

Value call_list_method(const Value& value, const std::string& name, const Arguments& arguments,
                       Budget& budget) {
  const std::vector<Value>& elements = value.list()->elements;
  const auto is_wanted = [&](const Value& element) {
    return are_equal(element, arguments.require(0, "value"));
  };
  budget.spend_steps(1 + value.list()->weight / 8);
  if (name == "count") {
    return static_cast<std::int64_t>(std::count_if(elements.begin(), elements.end(), is_wanted));
  }
  if (name == "index") {
    const auto found = std::find_if(elements.begin(), elements.end(), is_wanted);
    if (found == elements.end()) fail("value is not in the list");
    return static_cast<std::int64_t>(found - elements.begin());
  }
  if (name == "copy") return value;
  constexpr std::array<std::string_view, 9> kChanging = {"append", "clear",   "extend", "insert", "pop",
                                                         "remove", "reverse", "sort",   "update"};
  if (std::find(kChanging.begin(), kChanging.end(), name) != kChanging.end()) {
    fail("access to attribute '" + name + "' of 'list' object is unsafe");
  }
  fail_no_attribute(value, name);
}

Value call_loop_method(Loop& loop, const std::string& name, const Arguments& arguments, Budget& budget) {
  budget.spend_steps(arguments.positional.size());
  if (name == "cycle") {
    if (arguments.positional.empty()) fail("loop.cycle: no values");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  if (name == "changed") {
    const Value now = Value::list(arguments.positional);
    const bool is_same = loop.has_changed && are_equal(Value::list(loop.last_changed), now);
    loop.has_changed = true;
    loop.last_changed = arguments.positional;
    return !is_same;
  }
  fail("loop has no attribute '" + name + "'");
}

Value attribute_of_loop(const Loop& loop, const std::string& name) {
  const auto number = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  const std::vector<Value>& items = loop.items->elements;
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "revindex") return number(items.size() - loop.index);
  if (name == "revindex0") return number(items.size() - loop.index - 1);
  if (name == "first") return loop.index == 0;
  if (name == "last") return loop.index + 1 == items.size();
  if (name == "length") return number(items.size());
  if (name == "depth") return number(1);  // of recursion, which we don't have
  if (name == "depth0") return number(0);
  if (name == "previtem") return loop.index > 0 ? items[loop.index - 1] : Value();
  if (name == "nextitem") return loop.index + 1 < items.size() ? items[loop.index + 1] : Value();
  return Value();
}

Value make_range(const Arguments& arguments, Budget& budget) {
  if (arguments.positional.empty() || arguments.positional.size() > 3) {
    fail("range: expected one to three numbers");
  }
  const bool has_begin = arguments.positional.size() > 1;
  std::int64_t next = has_begin ? arguments.positional[0].as_integer() : 0;
  const std::int64_t end = arguments.positional[has_begin ? 1 : 0].as_integer();
  const std::int64_t step = arguments.positional.size() > 2 ? arguments.positional[2].as_integer() : 1;
  if (step == 0) fail("range: the step is zero");
  std::vector<Value> numbers;
  while (step > 0 ? next < end : next > end) {
    if (numbers.size() == kMaxRange) fail("range: more than " + std::to_string(kMaxRange));
    numbers.emplace_back(next);
    if (__builtin_add_overflow(next, step, &next)) break;
  }
  budget.spend_steps(numbers.size());
  return Value::list(std::move(numbers));
}

// namespace(a=1) and dict(a=1), each also from another dict.
Dict named_values(const Arguments& arguments) {
  Dict dict;
  if (!arguments.positional.empty()) {
    if (arguments.positional[0].dict() == nullptr) fail("expected a dict");
    dict = *arguments.positional[0].dict();
  }
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value);
  return dict;
}

Value make_namespace(const Arguments& arguments) {
  auto result = std::make_shared<Namespace>();
  const Value checked = Value::dict(named_values(arguments));
  for (const Pair& entry : checked.dict()->entries) {
    result->attributes.emplace_back(to_text(entry.first).text(), entry.second);
  }
  return result;
}

Value formatted_time(const Arguments& arguments, std::chrono::system_clock::time_point now) {
  const Value& given = arguments.require(0, "format");
  if (given.string() == nullptr) fail("expected a string, got " + type_name(given));
  const std::string& format = given.string()->text();
  if (format.empty()) return Value::text("");
  if (format.size() > 256) fail("strftime_now: format too long");
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) fail("strftime_now: no such time");
  std::array<char, 4096> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &parts);
  return Value::text(std::string(buffer.data(), size));
}

}  // namespace

std::optional<Builtin> builtin_named(std::string_view name) {
  const auto found = std::find_if(kBuiltins.begin(), kBuiltins.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == kBuiltins.end()) return std::nullopt;
  return found->second;
}

Value attribute_of(const Value& value, const std::string& name) {
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
    return Undefined{&name};
  }
  if (const auto* object = value.get<std::shared_ptr<Namespace>>()) {
    for (const auto& [attribute, content] : (*object)->attributes) {
      if (attribute == name) return content;
    }
    return Undefined{&name};
  }
  if (const auto* loop = value.get<std::shared_ptr<Loop>>()) {
    return attribute_of_loop(**loop, name);
  }
  if (value.is_undefined()) fail_undefined(value);
  return Undefined{&name};
}

Value call_method(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  if (const MarkedString* string = value.string()) {
    return call_string_method(*string, name, arguments, budget);
  }
  if (value.dict() != nullptr) return call_dict_method(value, name, arguments, budget);
  if (value.list() != nullptr) return call_list_method(value, name, arguments, budget);
  if (const auto* loop = value.get<std::shared_ptr<Loop>>()) {
    return call_loop_method(**loop, name, arguments, budget);
  }
  fail_no_attribute(value, name);
}

Value call_builtin(Builtin builtin, const Arguments& arguments, std::chrono::system_clock::time_point now,
                   Budget& budget) {
  switch (builtin) {
    case Builtin::kRange: return make_range(arguments, budget);
    case Builtin::kNamespace: return make_namespace(arguments);
    case Builtin::kDict: return Value::dict(named_values(arguments));
    case Builtin::kRaiseException:
      throw EvaluationError(to_text(arguments.require(0, "message")).text(), TemplateError::Kind::kRefusal);
    case Builtin::kStrftimeNow: return formatted_time(arguments, now);
  }
  return Value();
}

}  // namespace troupe::jinja
