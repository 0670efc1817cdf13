// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/template_builtins.hpp"
#include "text/template_json.hpp"
#include "text/template_text.hpp"

namespace troupe::jinja {
namespace {

constexpr std::array<std::pair<std::string_view, Filter>, 37> kFilters = {{
    {"abs", Filter::kAbs},
    {"capitalize", Filter::kCapitalize},
    {"count", Filter::kLength},
    {"d", Filter::kDefault},
    {"default", Filter::kDefault},
    {"dictsort", Filter::kDictsort},
    {"first", Filter::kFirst},
    {"float", Filter::kFloat},
    {"from_json", Filter::kFromJson},
    {"fromjson", Filter::kFromJson},
    {"indent", Filter::kIndent},
    {"int", Filter::kInt},
    {"items", Filter::kItems},
    {"join", Filter::kJoin},
    {"last", Filter::kLast},
    {"length", Filter::kLength},
    {"list", Filter::kList},
    {"lower", Filter::kLower},
    {"map", Filter::kMap},
    {"max", Filter::kMax},
    {"min", Filter::kMin},
    {"reject", Filter::kReject},
    {"rejectattr", Filter::kRejectattr},
    {"replace", Filter::kReplace},
    {"reverse", Filter::kReverse},
    {"round", Filter::kRound},
    {"safe", Filter::kSafe},
    {"select", Filter::kSelect},
    {"selectattr", Filter::kSelectattr},
    {"sort", Filter::kSort},
    {"string", Filter::kString},
    {"sum", Filter::kSum},
    {"title", Filter::kTitle},
    {"tojson", Filter::kTojson},
    {"trim", Filter::kTrim},
    {"unique", Filter::kUnique},
    {"upper", Filter::kUpper},
}};

bool flag(const Arguments& arguments, std::size_t position, std::string_view name) {
  const Value* value = arguments.find(position, name);
  return value != nullptr && is_true(*value);
}

MarkedString text_of(const Value& value, Budget& budget) {
  budget.spend_steps(weight(value));
  MarkedString text = to_text(value);
  budget.spend_bytes(text.size());
  return text;
}

// Where letters' case doesn't count, what is compared instead.
Value sort_key(const Value& value, bool is_case_sensitive) {
  const MarkedString* string = value.string();
  if (string == nullptr || is_case_sensitive) return value;
  return lower(*string);
}

// "a.b.0" of a value.
Value path_of(const Value& value, const std::string& path) {
  Value current = value;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    begin = end + 1;
    std::size_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const List* list = current.list();
    if (list != nullptr && parsed.ptr == name.data() + name.size() && !name.empty()) {
      current = index < list->elements.size() ? Value(list->elements[index]) : Value();
    } else {
      if (current.is_undefined()) fail_undefined(current);
      const Dict* dict = current.dict();
      const Value* found = dict != nullptr ? dict->find(name) : nullptr;
      current = found != nullptr ? Value(*found) : Value();
    }
  }
  return current;
}

std::string name_argument(const Value& value) {
  const MarkedString* name = value.string();
  if (name == nullptr) fail("expected a name, got " + type_name(value));
  return name->text();
}

// A sort's or similar filter's way to look at elements.
Value looked_at(const Value& element, const Value* attribute, bool is_case_sensitive) {
  if (attribute == nullptr || attribute->is_none()) return sort_key(element, is_case_sensitive);
  return sort_key(path_of(element, to_text(*attribute).text()), is_case_sensitive);
}

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  if (arguments.positional.size() > count) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
  }
  return rest;
}

Value select(const Value& value, const Arguments& arguments, bool by_attribute, bool wanted,
             Budget& budget) {
  const std::size_t num_names = by_attribute ? 1 : 0;
  std::string attribute;
  if (by_attribute) attribute = name_argument(arguments.require(0, "attribute"));
  const Value* test_name = arguments.find(num_names, "test");
  std::optional<Test> test;
  if (test_name != nullptr) {
    test = test_named(name_argument(*test_name));
    if (!test) fail("unknown test '" + name_argument(*test_name) + "'");
  }
  const Arguments rest = without_first(arguments, num_names + 1);
  std::vector<Value> chosen;
  if (!is_true(value)) return Value::generator({});  // none, too
  for (const Value& element : iterate(value, budget)) {
    const Value looked = by_attribute ? path_of(element, attribute) : element;
    const bool holds = test ? apply_test(*test, looked, rest, budget) : is_true(looked);
    if (holds == wanted) chosen.push_back(element);
  }
  return Value::generator(std::move(chosen));
}

Value map(const Value& value, const Arguments& arguments, Budget& budget) {
  std::vector<Value> results;
  const Value* attribute = arguments.find(SIZE_MAX, "attribute");
  const Value* fallback = arguments.find(SIZE_MAX, "default");
  std::optional<Filter> filter;
  if (attribute == nullptr) {
    const std::string name = name_argument(arguments.require(0, "filter"));
    filter = filter_named(name);
    if (!filter) fail("unknown filter '" + name + "'");
    if (*filter == Filter::kMap) fail("map of map is not supported");
  }
  const Arguments rest = without_first(arguments, 1);
  if (!is_true(value)) return Value::generator({});  // none, too
  for (const Value& element : iterate(value, budget)) {
    if (filter) {
      results.push_back(apply_filter(*filter, element, rest, budget));
    } else {
      Value found = path_of(element, to_text(*attribute).text());
      if (found.is_undefined() && fallback != nullptr) found = *fallback;
      results.push_back(std::move(found));
    }
  }
  return Value::generator(std::move(results));
}

Value sorted(std::vector<Value> elements, const Arguments& arguments, Budget& budget) {
  const Value* attribute = arguments.find(2, "attribute");
  const bool is_case_sensitive = flag(arguments, 1, "case_sensitive");
  const bool is_reversed = flag(arguments, 0, "reverse");
  budget.spend_steps(elements.size() * 8);
  std::stable_sort(elements.begin(), elements.end(), [&](const Value& a, const Value& b) {
    const int order = compare(looked_at(a, attribute, is_case_sensitive),
                              looked_at(b, attribute, is_case_sensitive));
    return is_reversed ? order > 0 : order < 0;
  });
  return Value::list(std::move(elements));
}

Value dictsorted(const Value& value, const Arguments& arguments, Budget& budget) {
  const Dict* dict = value.dict();
  if (dict == nullptr) fail("dictsort: expected a dict, got " + type_name(value));
  const bool is_case_sensitive = flag(arguments, 0, "case_sensitive");
  const bool is_reversed = flag(arguments, 2, "reverse");
  const Value* by = arguments.find(1, "by");
  const bool by_value = by != nullptr && to_text(*by).text() == "value";
  budget.spend_steps(dict->entries.size() * 8);
  std::vector<Pair> entries = dict->entries;
  std::stable_sort(entries.begin(), entries.end(), [&](const Pair& a, const Pair& b) {
    const int order = compare(sort_key(by_value ? a.second : a.first, is_case_sensitive),
                              sort_key(by_value ? b.second : b.first, is_case_sensitive));
    return is_reversed ? order > 0 : order < 0;
  });
  std::vector<Value> items;
  for (Pair& entry : entries) {
    items.push_back(Value::list({std::move(entry.first), std::move(entry.second)}, true));
  }
  return Value::list(std::move(items));
}

Value unique(const std::vector<Value>& elements, const Arguments& arguments, Budget& budget) {
  const bool is_case_sensitive = flag(arguments, 0, "case_sensitive");
  const Value* attribute = arguments.find(1, "attribute");
  std::vector<Value> seen;
  std::vector<Value> chosen;
  for (const Value& element : elements) {
    const Value key = looked_at(element, attribute, is_case_sensitive);
    budget.spend_steps(1 + seen.size() / 8);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return are_equal(s, key); })) {
      continue;
    }
    seen.push_back(key);
    chosen.push_back(element);
  }
  return Value::generator(std::move(chosen));
}

Value extreme(const std::vector<Value>& elements, const Arguments& arguments, int sign) {
  const bool is_case_sensitive = flag(arguments, 0, "case_sensitive");
  const Value* attribute = arguments.find(1, "attribute");
  const Value* best = nullptr;
  for (const Value& element : elements) {
    if (best == nullptr || sign * compare(looked_at(element, attribute, is_case_sensitive),
                                          looked_at(*best, attribute, is_case_sensitive)) > 0) {
      best = &element;
    }
  }
  return best != nullptr ? *best : Value();
}

Value join(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* given = arguments.find(0, "d");
  const MarkedString separator = given != nullptr ? to_text(*given) : MarkedString();
  const Value* attribute = arguments.find(1, "attribute");
  MarkedString result;
  bool is_first = true;
  for (const Value& element : iterate(value, budget)) {
    if (!is_first) result.append(separator);
    is_first = false;
    const Value shown =
        attribute != nullptr ? path_of(element, to_text(*attribute).text()) : element;
    result.append(text_of(shown, budget));
    budget.check_bytes(result.size());
  }
  budget.spend_bytes(result.size());
  return result;
}

Value sum(const std::vector<Value>& elements, const Arguments& arguments) {
  const Value* attribute = arguments.find(0, "attribute");
  double total = 0;
  bool is_integer = true;
  for (const Value& element : elements) {
    const Value number = looked_at(element, attribute, true);
    is_integer = is_integer && number.is_integer();
    total += number.as_double();
  }
  if (!is_integer) return total;
  if (std::fabs(total) > 9e15) fail("sum: too large");
  return static_cast<std::int64_t>(total);
}

Value length(const Value& value) {
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
Value end_element(const Value& value, bool is_first, Budget& budget) {
  const std::vector<Value> elements = iterate(value, budget);
  if (elements.empty()) return Value();
  return is_first ? elements.front() : elements.back();
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

Value rounded(const Value& value, const Arguments& arguments) {
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

Value with_indent(const MarkedString& text, const Arguments& arguments, Budget& budget) {
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

Value replace(const MarkedString& text, const Arguments& arguments, Budget& budget) {
  Arguments with_names;
  with_names.positional = {arguments.require(0, "old"), arguments.require(1, "new")};
  if (const Value* count = arguments.find(2, "count")) with_names.positional.push_back(*count);
  return call_method(text, "replace", with_names, budget);
}

Value reversed(const Value& value, Budget& budget) {
  std::vector<Value> elements = iterate(value, budget);
  std::reverse(elements.begin(), elements.end());
  if (value.string() == nullptr) return Value::generator(std::move(elements));
  MarkedString text;
  for (const Value& element : elements) text.append(*element.string());
  return text;
}

Value items_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return Value::generator({});
  if (value.dict() == nullptr) fail("Can only get item pairs from a mapping.");
  return call_method(value, "items", {}, budget);
}

Value trimmed(const MarkedString& text, const Arguments& arguments) {
  const Value* characters = arguments.find(0, "chars");
  std::optional<std::string> wanted;
  if (characters != nullptr && !characters->is_none()) wanted = to_text(*characters).text();
  return stripped(text, wanted, Ends::kBoth);
}

Value with_default(const Value& value, const Arguments& arguments) {
  const bool replaces = value.is_undefined() || (flag(arguments, 1, "boolean") && !is_true(value));
  if (!replaces) return value;
  const Value* fallback = arguments.find(0, "default_value");
  return fallback != nullptr ? *fallback : Value::text("");
}

Value absolute(const Value& value) {
  if (!value.is_integer()) return std::fabs(value.as_double());
  const std::int64_t number = value.as_integer();
  if (number == INT64_MIN) fail("abs: too large");
  return number < 0 ? -number : number;
}

}  // namespace

std::optional<Filter> filter_named(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == kFilters.end()) return std::nullopt;
  return found->second;
}

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  const auto found = std::find_if(named.begin(), named.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found != named.end() ? &found->second : nullptr;
}

const Value& Arguments::require(std::size_t position, std::string_view name) const {
  const Value* found = find(position, name);
  if (found == nullptr) fail("argument " + in_quotes(name) + " is missing");
  return *found;
}

Value apply_filter(Filter filter, const Value& value, const Arguments& arguments, Budget& budget) {
  const auto text = [&] { return text_of(value, budget); };
  switch (filter) {
    case Filter::kAbs: return absolute(value);
    case Filter::kCapitalize: return capitalized(text());
    case Filter::kDefault: return with_default(value, arguments);
    case Filter::kDictsort: return dictsorted(value, arguments, budget);
    case Filter::kFirst: return end_element(value, true, budget);
    case Filter::kFloat: return as_number(value, arguments, false);
    case Filter::kFromJson: return from_json(text(), budget);
    case Filter::kIndent: return with_indent(text(), arguments, budget);
    case Filter::kInt: return as_number(value, arguments, true);
    case Filter::kItems: return items_of(value, budget);
    case Filter::kJoin: return join(value, arguments, budget);
    case Filter::kLast: return end_element(value, false, budget);
    case Filter::kLength: return length(value);
    case Filter::kList: return Value::list(iterate(value, budget));
    case Filter::kLower: return lower(text());
    case Filter::kMap: return map(value, arguments, budget);
    case Filter::kMax: return extreme(iterate(value, budget), arguments, 1);
    case Filter::kMin: return extreme(iterate(value, budget), arguments, -1);
    case Filter::kReject: return select(value, arguments, false, false, budget);
    case Filter::kRejectattr: return select(value, arguments, true, false, budget);
    case Filter::kReplace: return replace(text(), arguments, budget);
    case Filter::kReverse: return reversed(value, budget);
    case Filter::kRound: return rounded(value, arguments);
    case Filter::kSafe: return text();
    case Filter::kSelect: return select(value, arguments, false, true, budget);
    case Filter::kSelectattr: return select(value, arguments, true, true, budget);
    case Filter::kSort: return sorted(iterate(value, budget), arguments, budget);
    case Filter::kString: return text();
    case Filter::kSum: return sum(iterate(value, budget), arguments);
    case Filter::kTitle: return titled(text());
    case Filter::kTojson: return json_text(value, arguments, budget);
    case Filter::kTrim: return trimmed(text(), arguments);
    case Filter::kUnique: return unique(iterate(value, budget), arguments, budget);
    case Filter::kUpper: return upper(text());
  }
  return Value();
}

}  // namespace troupe::jinja
