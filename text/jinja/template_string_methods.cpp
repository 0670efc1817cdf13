// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_string_methods.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/template_text.hpp"

namespace troupe::jinja {
namespace {

const MarkedString& string_argument(const Arguments& arguments, std::size_t position, std::string_view name) {
  const Value& value = arguments.require(position, name);
  if (value.string() == nullptr) fail("expected a string, got " + type_name(value));
  return *value.string();
}

std::int64_t count_argument(const Arguments& arguments, std::size_t position, std::string_view name) {
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

Value split_method(const MarkedString& string, const Arguments& arguments, bool from_right, Budget& budget) {
  const std::int64_t max_splits = count_argument(arguments, 1, "maxsplit");
  const Value* separator = arguments.find(0, "sep");
  if (separator == nullptr || separator->is_none()) {
    if (from_right && max_splits >= 0) fail("rsplit by white space with a limit is not supported");
    return list_of(split_at_space(string, max_splits), budget);
  }
  const std::string& text = string_argument(arguments, 0, "sep").text();
  if (text.empty()) fail("split: empty separator");
  return list_of(from_right ? split_from_right(string, text, max_splits) : split(string, text, max_splits),
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
Value find_method(const MarkedString& string, const Arguments& arguments, bool from_right, bool must_be) {
  const std::string& part = string_argument(arguments, 0, "sub").text();
  const std::size_t found = from_right ? string.text().rfind(part) : string.text().find(part);
  if (found == std::string::npos) {
    if (must_be) fail("substring not found");
    return std::int64_t{-1};
  }
  return static_cast<std::int64_t>(num_characters(std::string_view(string.text()).substr(0, found)));
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
      {string.substring(0, at), string.substring(at, end), string.substring(end, string.size())}, true);
}

}  // namespace

Value call_string_method(const MarkedString& string, const std::string& name, const Arguments& arguments,
                         Budget& budget) {
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
    return is_prefix ? string.substring(size, string.size()) : string.substring(0, string.size() - size);
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

void fail_no_attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) fail_undefined(value);
  const std::string owner = value.is_none() ? "None" : in_quotes(type_name(value) + " object");
  fail(owner + " has no attribute " + in_quotes(name));
}

}  // namespace troupe::jinja
