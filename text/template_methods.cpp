// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <utility>

#include "text/template_builtins.hpp"
#include "text/template_text.hpp"

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

[[noreturn]] void fail_no_attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) fail_undefined(value);
  const std::string owner = value.is_none() ? "None" : in_quotes(type_name(value) + " object");
  fail(owner + " has no attribute " + in_quotes(name));
}

const MarkedString& string_argument(const Arguments& arguments, std::size_t position,
                                    std::string_view name) {
  const Value& value = arguments.require(position, name);
  if (value.string() == nullptr) fail("expected a string, got " + type_name(value));
  return *value.string();
}

std::int64_t count_argument(const Arguments& arguments, std::size_t position,
                            std::string_view name) {
  const Value* value = arguments.find(position, name);
  return value != nullptr ? value->as_integer() : -1;
}

std::optional<std::string> optional_text(const Arguments& arguments) {
  const Value* value = arguments.find(0, "chars");
  if (value == nullptr || value->is_none()) return std::nullopt;
  return string_argument(arguments, 0, "chars").text();
}

Value list_of(std::vector<MarkedString> parts, Budget& budget) {
  budget.spend_steps(parts.size());
  std::vector<Value> elements;
  elements.reserve(parts.size());
  for (MarkedString& part : parts) elements.emplace_back(std::move(part));
  return Value::list(std::move(elements));
}

Value split_method(const MarkedString& string, const Arguments& arguments, bool from_right,
                   Budget& budget) {
  const std::int64_t max_splits = count_argument(arguments, 1, "maxsplit");
  const Value* separator = arguments.find(0, "sep");
  if (separator == nullptr || separator->is_none()) {
    if (from_right && max_splits >= 0) fail("rsplit by white space with a limit is not supported");
    return list_of(split_at_space(string, max_splits), budget);
  }
  const std::string& text = string_argument(arguments, 0, "sep").text();
  if (text.empty()) fail("split: empty separator");
  return list_of(from_right ? split_from_right(string, text, max_splits)
                            : split(string, text, max_splits),
                 budget);
}

bool has_affix(const MarkedString& string, const Value& affix, bool is_prefix) {
  if (const List* list = affix.list()) {
    return std::any_of(list->elements.begin(), list->elements.end(), [&](const Value& candidate) {
      return candidate.string() != nullptr && has_affix(string, candidate, is_prefix);
    });
  }
  if (affix.string() == nullptr) fail("expected a string, got " + type_name(affix));
  const std::string& text = affix.string()->text();
  return is_prefix ? string.text().starts_with(text) : string.text().ends_with(text);
}

Value replace_method(const MarkedString& string, const Arguments& arguments, Budget& budget) {
  const std::string& from = string_argument(arguments, 0, "old").text();
  const MarkedString& to = string_argument(arguments, 1, "new");
  if (from.empty()) fail("replacing the empty string is not supported");
  const std::size_t worst = string.size() + string.size() / from.size() * to.size();
  // Only what is really there counts, but it is counted before it is made.
  if (to.size() > from.size()) {
    std::size_t num_found = 0;
    for (std::size_t at = string.text().find(from); at != std::string::npos;
         at = string.text().find(from, at + from.size())) {
      ++num_found;
    }
    budget.spend_bytes(string.size() + num_found * to.size());
  } else {
    budget.spend_bytes(std::min(worst, string.size()));
  }
  return replaced(string, from, to, count_argument(arguments, 2, "count"));
}

Value join_method(const MarkedString& separator, const Arguments& arguments, Budget& budget) {
  MarkedString result;
  bool is_first = true;
  for (const Value& element : iterate(arguments.require(0, "iterable"), budget)) {
    if (element.string() == nullptr) fail("join: expected strings, got " + type_name(element));
    if (!is_first) result.append(separator);
    is_first = false;
    result.append(*element.string());
    budget.check_bytes(result.size());
  }
  budget.spend_bytes(result.size());
  return result;
}

// In characters, as Python counts; -1 where it isn't.
Value find_method(const MarkedString& string, const Arguments& arguments, bool from_right,
                  bool must_be) {
  const std::string& part = string_argument(arguments, 0, "sub").text();
  const std::size_t found = from_right ? string.text().rfind(part) : string.text().find(part);
  if (found == std::string::npos) {
    if (must_be) fail("substring not found");
    return std::int64_t{-1};
  }
  return static_cast<std::int64_t>(
      num_characters(std::string_view(string.text()).substr(0, found)));
}

Value count_method(const MarkedString& string, const Arguments& arguments) {
  const std::string& part = string_argument(arguments, 0, "sub").text();
  if (part.empty()) fail("counting the empty string is not supported");
  std::int64_t count = 0;
  for (std::size_t at = string.text().find(part); at != std::string::npos;
       at = string.text().find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// "{}" and "{0}" and "{name}", without format specifications.
Value format_method(const MarkedString& string, const Arguments& arguments, Budget& budget) {
  MarkedString result;
  const std::string& text = string.text();
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_brace = text[i] == '{' || text[i] == '}';
    if (is_brace && i + 1 < text.size() && text[i + 1] == text[i]) {
      result.append(string, i, i + 1);
      ++i;
    } else if (!is_brace) {
      result.append(string, i, i + 1);
    } else {
      const std::size_t end = text.find('}', i);
      if (text[i] == '}' || end == std::string::npos) fail("format: unbalanced braces");
      const std::string name = text.substr(i + 1, end - i - 1);
      if (name.find_first_of(":!.[") != std::string::npos) {
        fail("format: specifications are not supported");
      }
      const bool is_index = name.size() < 4 && name.find_first_not_of("0123456789") == name.npos;
      const std::size_t index = name.empty() ? next++ : (is_index ? std::stoul(name) : SIZE_MAX);
      result.append(to_text(arguments.require(index, name)));
      budget.check_bytes(result.size());
      i = end;
    }
  }
  budget.spend_bytes(result.size());
  return result;
}

Value partition_method(const MarkedString& string, const Arguments& arguments, bool from_right) {
  const std::string& text = string.text();
  const std::string& separator = string_argument(arguments, 0, "sep").text();
  const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos) {
    if (from_right) return Value::list({Value::text(""), Value::text(""), string}, true);
    return Value::list({string, Value::text(""), Value::text("")}, true);
  }
  const std::size_t end = at + separator.size();
  return Value::list(
      {string.substring(0, at), string.substring(at, end), string.substring(end, string.size())},
      true);
}

Value call_string_method(const MarkedString& string, const std::string& name,
                         const Arguments& arguments, Budget& budget) {
  budget.spend_bytes(string.size());
  if (name == "strip") return stripped(string, optional_text(arguments), Ends::kBoth);
  if (name == "lstrip") return stripped(string, optional_text(arguments), Ends::kLeft);
  if (name == "rstrip") return stripped(string, optional_text(arguments), Ends::kRight);
  if (name == "split") return split_method(string, arguments, false, budget);
  if (name == "rsplit") return split_method(string, arguments, true, budget);
  if (name == "splitlines") {
    const Value* keeps = arguments.find(0, "keepends");
    return list_of(split_lines(string, keeps != nullptr && is_true(*keeps)), budget);
  }
  if (name == "startswith") return has_affix(string, arguments.require(0, "prefix"), true);
  if (name == "endswith") return has_affix(string, arguments.require(0, "suffix"), false);
  if (name == "replace") return replace_method(string, arguments, budget);
  if (name == "upper") return upper(string);
  if (name == "lower") return lower(string);
  if (name == "title") return titled(string);
  if (name == "capitalize") return capitalized(string);
  if (name == "join") return join_method(string, arguments, budget);
  if (name == "find") return find_method(string, arguments, false, false);
  if (name == "rfind") return find_method(string, arguments, true, false);
  if (name == "index") return find_method(string, arguments, false, true);
  if (name == "rindex") return find_method(string, arguments, true, true);
  if (name == "count") return count_method(string, arguments);
  if (name == "format") return format_method(string, arguments, budget);
  if (name == "partition") return partition_method(string, arguments, false);
  if (name == "rpartition") return partition_method(string, arguments, true);
  if (name == "removeprefix" || name == "removesuffix") {
    const bool is_prefix = name == "removeprefix";
    const Value& affix = arguments.require(0, "affix");
    if (!has_affix(string, affix, is_prefix)) return string;
    const std::size_t size = string_argument(arguments, 0, "affix").size();
    return is_prefix ? string.substring(size, string.size())
                     : string.substring(0, string.size() - size);
  }
  if (name == "isalpha") return consists_of(string.text(), CharacterClass::kAlpha);
  if (name == "isdigit") return consists_of(string.text(), CharacterClass::kDigit);
  if (name == "isnumeric") return consists_of(string.text(), CharacterClass::kDigit);
  if (name == "isalnum") return consists_of(string.text(), CharacterClass::kAlnum);
  if (name == "isspace") return consists_of(string.text(), CharacterClass::kSpace);
  if (name == "isupper") return consists_of(string.text(), CharacterClass::kUpper);
  if (name == "islower") return consists_of(string.text(), CharacterClass::kLower);
  fail_no_attribute(string, name);
}

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
  constexpr std::array<std::string_view, 9> kChanging = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", "update"};
  if (std::find(kChanging.begin(), kChanging.end(), name) != kChanging.end()) {
    fail("access to attribute '" + name + "' of 'list' object is unsafe");
  }
  fail_no_attribute(value, name);
}

Value call_loop_method(Loop& loop, const std::string& name, const Arguments& arguments,
                       Budget& budget) {
  budget.spend_steps(arguments.positional.size());
  if (name == "cycle") {
    if (arguments.positional.empty()) fail("loop.cycle: no values");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  if (name == "changed") {
    const Value now = Value::list(arguments.positional);
    const bool is_same =
        loop.has_changed && are_equal(Value::list(loop.last_changed), now);
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
  const std::int64_t step =
      arguments.positional.size() > 2 ? arguments.positional[2].as_integer() : 1;
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
  for (const auto& [name, value] : arguments.named) dict.set(Value::text(name), value);
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
  const std::string& format = string_argument(arguments, 0, "format").text();
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

Value call_method(const Value& value, const std::string& name, const Arguments& arguments,
                  Budget& budget) {
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

Value call_builtin(Builtin builtin, const Arguments& arguments,
                   std::chrono::system_clock::time_point now, Budget& budget) {
  switch (builtin) {
    case Builtin::kRange: return make_range(arguments, budget);
    case Builtin::kNamespace: return make_namespace(arguments);
    case Builtin::kDict: return Value::dict(named_values(arguments));
    case Builtin::kRaiseException: fail(to_text(arguments.require(0, "message")).text());
    case Builtin::kStrftimeNow: return formatted_time(arguments, now);
  }
  return Value();
}

}  // namespace troupe::jinja
