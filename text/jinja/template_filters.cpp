// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/jinja/template_builtins.hpp"
#include "text/jinja/template_json.hpp"
#include "text/jinja/template_sequence_filters.hpp"
#include "text/jinja/template_text.hpp"

namespace troupe::jinja {
namespace {

MarkedString text_of(const Value& value, Budget& budget) {
  budget.spend_steps(weight(value));
  MarkedString text = to_text(value);
  budget.spend_bytes(text.size());
  return text;
}

// A filter that changes the text of a value and takes nothing else.
template <MarkedString (*kChange)(const MarkedString&)>
Value on_text(const Value& value, const Arguments&, Budget& budget) {
  return kChange(text_of(value, budget));
}

Value text_itself(const Value& value, const Arguments&, Budget& budget) { return text_of(value, budget); }

Value length(const Value& value, const Arguments&, Budget&) {
  if (const MarkedString* string = value.string()) {
    return static_cast<std::int64_t>(num_characters(string->text()));
  }
  const List* list = value.list();
  if (list != nullptr && !list->is_generator) return static_cast<std::int64_t>(list->elements.size());
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->entries.size());
  if (value.is_undefined()) return std::int64_t{0};
  fail("object of type '" + type_name(value) + "' has no length");
}

// The first or last element or character; undefined where there is none.
Value first_element(const Value& value, const Arguments&, Budget& budget) {
  const std::vector<Value> elements = iterate(value, budget);
  return elements.empty() ? Value() : elements.front();
}

Value last_element(const Value& value, const Arguments&, Budget& budget) {
  const std::vector<Value> elements = iterate(value, budget);
  return elements.empty() ? Value() : elements.back();
}

Value list_of(const Value& value, const Arguments&, Budget& budget) {
  return Value::list(iterate(value, budget));
}

std::optional<double> number_in(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(" \t\n\r"), text.size()));
  if (text.starts_with('+')) text.erase(0, 1);
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

Value as_number(const Value& value, const Arguments& arguments, bool is_integer) {
  const Value* fallback = arguments.find(0, "default");
  if (value.is_integer() && is_integer) return value.as_integer();
  std::optional<double> number;
  if (value.is_number()) number = value.as_double();
  if (const MarkedString* string = value.string()) number = number_in(string->text());
  if (number && is_integer && !(std::fabs(*number) < 9.2e18)) number.reset();
  if (!number && fallback != nullptr) return *fallback;
  if (is_integer) return static_cast<std::int64_t>(std::trunc(number.value_or(0)));
  return number.value_or(0.0);
}

Value as_float(const Value& value, const Arguments& arguments, Budget&) {
  return as_number(value, arguments, false);
}

Value as_integer(const Value& value, const Arguments& arguments, Budget&) {
  return as_number(value, arguments, true);
}

Value rounded(const Value& value, const Arguments& arguments, Budget&) {
  const Value* digits = arguments.find(0, "precision");
  const Value* method = arguments.find(1, "method");
  const std::string name = method != nullptr ? to_text(*method).text() : "common";
  const std::int64_t precision = digits != nullptr ? digits->as_integer() : 0;
  if (precision < -300 || precision > 300) fail("round: precision out of range");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * scale;
  if (name == "ceil") return std::ceil(scaled) / scale;
  if (name == "floor") return std::floor(scaled) / scale;
  if (name != "common") fail("round: method must be common, ceil or floor");
  if (value.is_integer()) return value;
  return std::nearbyint(scaled) / scale;  // half to even, as Python
}

Value parsed_json(const Value& value, const Arguments&, Budget& budget) {
  return from_json(text_of(value, budget), budget);
}

Value json_text(const Value& value, const Arguments& arguments, Budget& budget) {
  JsonStyle style;
  const Value* indent = arguments.find(1, "indent");
  // Jinja's own tojson takes the indent first; Hugging Face's takes ensure_ascii.
  if (indent != nullptr && !indent->is_none()) {
    const std::int64_t width = indent->as_integer();
    if (width < 0 || width > 16) fail("tojson: expected an indent from 0 to 16");
    style.indent = static_cast<std::size_t>(width);
  }
  style.is_ascii = flag(arguments, 0, "ensure_ascii");
  style.sorts_keys = flag(arguments, 3, "sort_keys");
  const Value* separators = arguments.find(2, "separators");
  if (separators != nullptr && !separators->is_none()) {
    const List* pair = separators->list();
    if (pair == nullptr || pair->elements.size() != 2) fail("tojson: expected two separators");
    style.item_separator = to_text(pair->elements[0]).text();
    style.key_separator = to_text(pair->elements[1]).text();
  }
  return to_json(value, style, budget);
}

Value with_indent(const Value& value, const Arguments& arguments, Budget& budget) {
  const MarkedString text = text_of(value, budget);
  MarkedString prefix("    ");
  if (const Value* width = arguments.find(0, "width")) {
    if (width->string() != nullptr) {
      prefix = *width->string();
    } else {
      const std::int64_t count = width->as_integer();
      if (count > 1024) fail("indent: at most 1024 spaces");
      prefix = MarkedString(std::string(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), ' '));
    }
  }
  const auto num_lines =
      static_cast<std::size_t>(std::count(text.text().begin(), text.text().end(), '\n')) + 1;
  budget.spend_bytes(text.size() + num_lines * prefix.size());
  return indented(text, prefix, flag(arguments, 1, "first"), flag(arguments, 2, "blank"));
}

Value replace(const Value& value, const Arguments& arguments, Budget& budget) {
  const MarkedString text = text_of(value, budget);
  Arguments with_names;
  with_names.positional = {arguments.require(0, "old"), arguments.require(1, "new")};
  if (const Value* count = arguments.find(2, "count")) with_names.positional.push_back(*count);
  return call_method(text, "replace", with_names, budget);
}

Value reversed(const Value& value, const Arguments&, Budget& budget) {
  std::vector<Value> elements = iterate(value, budget);
  std::reverse(elements.begin(), elements.end());
  if (value.string() == nullptr) return Value::generator(std::move(elements));
  MarkedString text;
  for (const Value& element : elements) text.append(*element.string());
  return text;
}

Value items_of(const Value& value, const Arguments&, Budget& budget) {
  if (value.is_undefined()) return Value::generator({});
  if (value.dict() == nullptr) fail("Can only get item pairs from a mapping.");
  return call_method(value, "items", {}, budget);
}

Value trimmed(const Value& value, const Arguments& arguments, Budget& budget) {
  const MarkedString text = text_of(value, budget);
  const Value* characters = arguments.find(0, "chars");
  std::optional<std::string> wanted;
  if (characters != nullptr && !characters->is_none()) wanted = to_text(*characters).text();
  return stripped(text, wanted, Ends::kBoth);
}

Value with_default(const Value& value, const Arguments& arguments, Budget&) {
  const bool replaces = value.is_undefined() || (flag(arguments, 1, "boolean") && !is_true(value));
  if (!replaces) return value;
  const Value* fallback = arguments.find(0, "default_value");
  return fallback != nullptr ? *fallback : Value::text("");
}

Value absolute(const Value& value, const Arguments&, Budget&) {
  if (!value.is_integer()) return std::fabs(value.as_double());
  const std::int64_t number = value.as_integer();
  if (number == INT64_MIN) fail("abs: too large");
  return number < 0 ? -number : number;
}

constexpr std::array<std::pair<std::string_view, Filter>, 37> kFilters = {{
    {"abs", absolute},
    {"capitalize", on_text<capitalized>},
    {"count", length},
    {"d", with_default},
    {"default", with_default},
    {"dictsort", sorted_dict},
    {"first", first_element},
    {"float", as_float},
    {"from_json", parsed_json},
    {"fromjson", parsed_json},
    {"indent", with_indent},
    {"int", as_integer},
    {"items", items_of},
    {"join", joined},
    {"last", last_element},
    {"length", length},
    {"list", list_of},
    {"lower", on_text<lower>},
    {"map", mapped},
    {"max", greatest},
    {"min", smallest},
    {"reject", rejected},
    {"rejectattr", rejected_by_attribute},
    {"replace", replace},
    {"reverse", reversed},
    {"round", rounded},
    {"safe", text_itself},
    {"select", selected},
    {"selectattr", selected_by_attribute},
    {"sort", sorted_list},
    {"string", text_itself},
    {"sum", summed},
    {"title", on_text<titled>},
    {"tojson", json_text},
    {"trim", trimmed},
    {"unique", without_repetitions},
    {"upper", on_text<upper>},
}};

}  // namespace

Filter filter_named(std::string_view name) {
  const auto found =
      std::find_if(kFilters.begin(), kFilters.end(), [&](const auto& entry) { return entry.first == name; });
  return found != kFilters.end() ? found->second : nullptr;
}

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  const auto found =
      std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first.text() == name; });
  return found != named.end() ? &found->second : nullptr;
}

const Value& Arguments::require(std::size_t position, std::string_view name) const {
  const Value* found = find(position, name);
  if (found == nullptr) fail("argument " + in_quotes(name) + " is missing");
  return *found;
}

void Arguments::add(MarkedString name, Value value, Budget& budget) {
  budget.spend_steps(named.size() / 8);
  for (const auto& [present, content] : named) {
    if (present.text() == name.text()) fail("argument " + in_quotes(name.text()) + " is there twice");
  }
  named.emplace_back(std::move(name), std::move(value));
}

void Arguments::add_all(const Value& dict, Budget& budget) {
  if (dict.dict() == nullptr) fail("expected a dict behind **, got " + type_name(dict));
  for (const auto& [name, value] : dict.dict()->entries) {
    if (name.string() == nullptr) fail("names of arguments are strings, not " + type_name(name));
    add(*name.string(), value, budget);
  }
}

}  // namespace troupe::jinja
