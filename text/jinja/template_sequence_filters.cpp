// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_sequence_filters.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "text/jinja/template_text.hpp"

namespace troupe::jinja {
namespace {

// Where letters' case doesn't count, what is compared instead.
Value sort_key(const Value& value, bool is_case_sensitive, Budget& budget) {
  const MarkedString* string = value.string();
  if (string == nullptr || is_case_sensitive) return value;
  budget.spend_bytes(string->size());
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
      const Value found = attribute_of(current, name);
      current = found.is_undefined() ? Value() : found;
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
Value looked_at(const Value& element, const Value* attribute, bool is_case_sensitive, Budget& budget) {
  if (attribute == nullptr || attribute->is_none()) {
    return sort_key(element, is_case_sensitive, budget);
  }
  return sort_key(path_of(element, to_text(*attribute).text()), is_case_sensitive, budget);
}

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  if (arguments.positional.size() > count) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
  }
  return rest;
}

struct Keyed {
  Value key;
  Value value;
};

Value sorted(std::vector<Keyed> elements, bool is_reversed, Budget& budget) {
  budget.spend_steps(elements.size() * 8);
  std::stable_sort(elements.begin(), elements.end(), [&](const Keyed& a, const Keyed& b) {
    const int order = compare(a.key, b.key);
    return is_reversed ? order > 0 : order < 0;
  });
  std::vector<Value> values;
  values.reserve(elements.size());
  for (Keyed& element : elements) values.push_back(std::move(element.value));
  return Value::list(std::move(values));
}

// The elements for which a test is `wanted`.
Value filtered(const Value& value, const Arguments& arguments, bool by_attribute, bool wanted,
               Budget& budget) {
  const std::size_t num_names = by_attribute ? 1 : 0;
  std::string attribute;
  if (by_attribute) attribute = name_argument(arguments.require(0, "attribute"));
  const Value* test_name = arguments.find(num_names, "test");
  Test test = nullptr;
  if (test_name != nullptr) {
    test = test_named(name_argument(*test_name));
    if (test == nullptr) fail("unknown test '" + name_argument(*test_name) + "'");
  }
  const Arguments rest = without_first(arguments, num_names + 1);
  std::vector<Value> chosen;
  if (!is_true(value)) return Value::generator({});  // none, too
  for (const Value& element : iterate(value, budget)) {
    const Value looked = by_attribute ? path_of(element, attribute) : element;
    const bool holds = test != nullptr ? test(looked, rest, budget) : is_true(looked);
    if (holds == wanted) chosen.push_back(element);
  }
  return Value::generator(std::move(chosen));
}

Value extreme(const Value& value, const Arguments& arguments, bool is_greatest, Budget& budget) {
  const bool is_case_sensitive = flag(arguments, 0, "case_sensitive");
  const Value* attribute = arguments.find(1, "attribute");
  std::optional<Keyed> best;
  for (const Value& element : iterate(value, budget)) {
    Keyed candidate{looked_at(element, attribute, is_case_sensitive, budget), element};
    const int order = best ? compare(candidate.key, best->key) : 0;
    if (!best || (is_greatest ? order > 0 : order < 0)) best = std::move(candidate);
  }
  return best ? best->value : Value();
}

}  // namespace

bool flag(const Arguments& arguments, std::size_t position, std::string_view name) {
  const Value* value = arguments.find(position, name);
  return value != nullptr && is_true(*value);
}

Value selected(const Value& value, const Arguments& arguments, Budget& budget) {
  return filtered(value, arguments, false, true, budget);
}

Value rejected(const Value& value, const Arguments& arguments, Budget& budget) {
  return filtered(value, arguments, false, false, budget);
}

Value selected_by_attribute(const Value& value, const Arguments& arguments, Budget& budget) {
  return filtered(value, arguments, true, true, budget);
}

Value rejected_by_attribute(const Value& value, const Arguments& arguments, Budget& budget) {
  return filtered(value, arguments, true, false, budget);
}

Value mapped(const Value& value, const Arguments& arguments, Budget& budget) {
  std::vector<Value> results;
  const Value* attribute = arguments.find(SIZE_MAX, "attribute");
  const Value* fallback = arguments.find(SIZE_MAX, "default");
  Filter filter = nullptr;
  if (attribute == nullptr) {
    const std::string name = name_argument(arguments.require(0, "filter"));
    filter = filter_named(name);
    if (filter == nullptr) fail("unknown filter '" + name + "'");
    if (filter == mapped) fail("map of map is not supported");
  }
  const Arguments rest = without_first(arguments, 1);
  if (!is_true(value)) return Value::generator({});  // none, too
  for (const Value& element : iterate(value, budget)) {
    if (filter != nullptr) {
      results.push_back(filter(element, rest, budget));
    } else {
      Value found = path_of(element, to_text(*attribute).text());
      if (found.is_undefined() && fallback != nullptr) found = *fallback;
      results.push_back(std::move(found));
    }
  }
  return Value::generator(std::move(results));
}

Value sorted_list(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* attribute = arguments.find(2, "attribute");
  const bool is_case_sensitive = flag(arguments, 1, "case_sensitive");
  std::vector<Keyed> elements;
  for (const Value& element : iterate(value, budget)) {
    elements.push_back({looked_at(element, attribute, is_case_sensitive, budget), element});
  }
  return sorted(std::move(elements), flag(arguments, 0, "reverse"), budget);
}

Value sorted_dict(const Value& value, const Arguments& arguments, Budget& budget) {
  const Dict* dict = value.dict();
  if (dict == nullptr) fail("dictsort: expected a dict, got " + type_name(value));
  const bool is_case_sensitive = flag(arguments, 0, "case_sensitive");
  const Value* by = arguments.find(1, "by");
  const bool by_value = by != nullptr && to_text(*by).text() == "value";
  std::vector<Keyed> items;
  for (const auto& [key, content] : dict->entries) {
    items.push_back(
        {sort_key(by_value ? content : key, is_case_sensitive, budget), Value::list({key, content}, true)});
  }
  return sorted(std::move(items), flag(arguments, 2, "reverse"), budget);
}

Value without_repetitions(const Value& value, const Arguments& arguments, Budget& budget) {
  const bool is_case_sensitive = flag(arguments, 0, "case_sensitive");
  const Value* attribute = arguments.find(1, "attribute");
  std::vector<Value> seen;
  std::vector<Value> chosen;
  for (const Value& element : iterate(value, budget)) {
    const Value key = looked_at(element, attribute, is_case_sensitive, budget);
    budget.spend_steps(1 + seen.size() / 8);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return are_equal(s, key); })) {
      continue;
    }
    seen.push_back(key);
    chosen.push_back(element);
  }
  return Value::generator(std::move(chosen));
}

Value greatest(const Value& value, const Arguments& arguments, Budget& budget) {
  return extreme(value, arguments, true, budget);
}

Value smallest(const Value& value, const Arguments& arguments, Budget& budget) {
  return extreme(value, arguments, false, budget);
}

Value joined(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* given = arguments.find(0, "d");
  const MarkedString separator = given != nullptr ? to_text(*given) : MarkedString();
  const Value* attribute = arguments.find(1, "attribute");
  MarkedString result;
  bool is_first = true;
  for (const Value& element : iterate(value, budget)) {
    if (!is_first) result.append(separator);
    is_first = false;
    const Value shown = attribute != nullptr ? path_of(element, to_text(*attribute).text()) : element;
    budget.spend_steps(weight(shown));
    result.append(to_text(shown));
    budget.check_bytes(result.size());
  }
  budget.spend_bytes(result.size());
  return result;
}

Value summed(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* attribute = arguments.find(0, "attribute");
  double total = 0;
  bool is_integer = true;
  for (const Value& element : iterate(value, budget)) {
    const Value number = looked_at(element, attribute, true, budget);
    is_integer = is_integer && number.is_integer();
    total += number.as_double();
  }
  if (!is_integer) return total;
  if (std::fabs(total) > 9e15) fail("sum: too large");
  return static_cast<std::int64_t>(total);
}

}  // namespace troupe::jinja
