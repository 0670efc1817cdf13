// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema_compiler.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "text/grammar/json_number.hpp"
#include "text/grammar/schema_choice.hpp"
#include "text/grammar/string_format.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr int kMaxNesting = 100;  // of schemas within schemas that are joined
constexpr std::size_t kMaxKeyBytes = 512;
constexpr std::size_t kMaxDisjoint = 200;  // branches that are held against each other

constexpr std::array kUnsupported{"not",
                                  "if",
                                  "then",
                                  "else",
                                  "contains",
                                  "minContains",
                                  "maxContains",
                                  "patternProperties",
                                  "propertyNames",
                                  "dependencies",
                                  "dependentRequired",
                                  "dependentSchemas",
                                  "unevaluatedItems",
                                  "unevaluatedProperties",
                                  "additionalItems",
                                  "$dynamicRef",
                                  "$recursiveRef"};

bool is_true(const SchemaJson* value) { return value != nullptr && *value == true; }

void refuse_unsupported(const SchemaPlace& place) {
  for (const char* keyword : kUnsupported)
    if (place.find(keyword) != nullptr) place.fail(keyword, "is not supported");
  if (is_true(place.find("uniqueItems"))) place.fail("uniqueItems", "is not supported");
}

// Each once, in the order given.
std::vector<std::string> required_names(const SchemaPlace& place) {
  std::vector<std::string> required;
  const SchemaJson* names = place.find("required");
  if (names == nullptr) return required;
  if (!names->is_array()) place.fail("required", "expected a list of names");
  std::set<std::string> known;
  for (const SchemaJson& name : *names) {
    if (!name.is_string()) place.fail("required", "expected a list of names");
    if (known.insert(name.get<std::string>()).second) required.push_back(name.get<std::string>());
  }
  return required;
}

// The types that a keyword speaks of: a schema with one of them and no type is of that type here.
std::vector<std::string> implied_types(const SchemaPlace& place) {
  static constexpr std::array<std::pair<const char*, const char*>, 18> kImplied{{
      {"properties", "object"},
      {"required", "object"},
      {"additionalProperties", "object"},
      {"minProperties", "object"},
      {"maxProperties", "object"},
      {"items", "array"},
      {"prefixItems", "array"},
      {"minItems", "array"},
      {"maxItems", "array"},
      {"minLength", "string"},
      {"maxLength", "string"},
      {"pattern", "string"},
      {"format", "string"},
      {"minimum", "number"},
      {"exclusiveMinimum", "number"},
      {"maximum", "number"},
      {"exclusiveMaximum", "number"},
      {"multipleOf", "number"},
  }};
  std::vector<std::string> types;
  for (const auto& [keyword, type] : kImplied)
    if (place.find(keyword) != nullptr && (types.empty() || types.back() != type)) types.emplace_back(type);
  return types;
}

// A value of every kind, in JSON's own words.
std::string_view type_name(const SchemaJson& value) {
  switch (value.type()) {
    case SchemaJson::value_t::null: return "null";
    case SchemaJson::value_t::boolean: return "boolean";
    case SchemaJson::value_t::string: return "string";
    case SchemaJson::value_t::array: return "array";
    case SchemaJson::value_t::object: return "object";
    default: return "number";
  }
}

bool has_type(const SchemaJson& value, const std::string& type) {
  if (type != "integer") return type_name(value) == type;
  return value.is_number_integer() || (value.is_number_float() && std::trunc(value.get<double>()) == value);
}

std::string decimal_text(const SchemaJson& number) {
  if (number.is_number_integer()) return number.dump();
  std::array<char, 400> text;
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), number.get<double>(), std::chars_format::fixed);
  return error == std::errc() ? std::string(text.data(), end) : number.dump();
}

const SchemaJson* number_at(const SchemaPlace& place, const char* keyword) {
  const SchemaJson* value = place.find(keyword);
  if (value != nullptr && !value->is_number()) place.fail(keyword, "expected a number");
  return value;
}

// The first integer from a bound upwards or downwards, and whether it is the bound. Beyond the supported
// integers: one that is beyond them too.
std::pair<std::int64_t, bool> whole_of(const SchemaJson& number, bool is_upwards) {
  constexpr std::int64_t kBeyond = kMaxJsonInteger + 1;
  const double wide = number.get<double>();
  if (std::abs(wide) >= static_cast<double>(kBeyond) && !number.is_number_integer())
    return {wide > 0 ? kBeyond : -kBeyond, false};
  if (number.is_number_unsigned())
    return {static_cast<std::int64_t>(std::min<std::uint64_t>(number.get<std::uint64_t>(), kBeyond)), true};
  if (number.is_number_integer()) return {std::max(number.get<std::int64_t>(), -kBeyond), true};
  const auto whole = static_cast<std::int64_t>(is_upwards ? std::ceil(wide) : std::floor(wide));
  return {whole, static_cast<double>(whole) == wide};
}

}  // namespace

GrammarExpression SchemaCompiler::compile(const SchemaPlace& place) {
  const GrammarExpression expression = schema(place);
  while (!undefined_.empty()) {
    const auto [referred, rule] = std::move(undefined_.front());
    undefined_.pop_front();
    builder_.define(rule, schema(referred));
  }
  return expression;
}

std::optional<GrammarExpression> SchemaCompiler::compile_plain(const SchemaPlace& place,
                                                               std::string_view end) {
  refuse_unsupported(place);
  for (const char* keyword : {"$ref", "allOf", "anyOf", "oneOf"})
    if (place.find(keyword) != nullptr) place.fail(keyword, "is not supported of a text without quotes");
  if (place.find("enum") != nullptr || place.find("const") != nullptr) {
    std::vector<std::string> texts;
    for (const SchemaJson& value : values_of(place)) {
      std::string text = value.is_string() ? value.get<std::string>() : std::string();
      const bool is_told_from_end = (text + std::string(end)).find(end) == text.size();
      if (value.is_string() && is_told_from_end) texts.push_back(std::move(text));
    }
    if (texts.empty()) place.fail("no value of enum or const can be written");
    return builder_.any_text(std::move(texts));
  }
  const CharacterSet excluded = CharacterSet::of(characters_of(end).front());
  const auto spell = [&](const CharacterSet& set) { return one_character(builder_, set.without(excluded)); };
  const Count length = count(place, "minLength", "maxLength");
  if (const auto pattern = pattern_of(place, length)) return regex_expression(builder_, *pattern, spell);
  if (length.min == 0 && length.max == kUnboundedCount) return std::nullopt;
  return builder_.repeat(spell(CharacterSet::all()), length.min, length.max);
}

GrammarExpression SchemaCompiler::schema(const SchemaPlace& place) {
  if (place.json->is_boolean()) return *place.json == true ? text_.any_value() : builder_.nothing();
  if (!place.json->is_object()) place.fail("expected an object or a truth value");
  if (++nesting_ > kMaxNesting) place.fail("schemas within schemas are too deep here");
  refuse_unsupported(place);
  const GrammarExpression expression = constrained(place);
  --nesting_;
  return expression;
}

GrammarExpression SchemaCompiler::constrained(const SchemaPlace& place) {
  if (place.find("$ref") != nullptr) return reference(place);
  if (place.find("allOf") != nullptr) return joined(place);
  if (place.find("anyOf") != nullptr) return chosen(place, "anyOf");
  if (place.find("oneOf") != nullptr) return chosen(place, "oneOf");
  if (place.find("enum") != nullptr || place.find("const") != nullptr) return constants(place);
  std::vector<GrammarExpression> choices;
  const std::vector<std::string> types = types_of(place);
  for (const std::string& type : types) choices.push_back(typed(place, type));
  if (is_true(place.find("nullable")) && std::find(types.begin(), types.end(), "null") == types.end() &&
      !types.empty())
    choices.push_back(text_.null());
  return types.empty() ? text_.any_value() : builder_.any_of(std::move(choices));
}

GrammarExpression SchemaCompiler::reference(const SchemaPlace& place) {
  const SchemaPlace target = document_.referred(place);
  const SchemaPlace rest = document_.without(place, {"$ref"});
  if (has_constraints(*rest.json)) return schema(document_.merged(document_.resolved(target), rest));
  const auto [known, is_new] = rules_.try_emplace(target.path);
  if (is_new) {
    known->second = builder_.declare_rule();
    undefined_.emplace_back(target, known->second);
  }
  return builder_.call(known->second);
}

GrammarExpression SchemaCompiler::joined(const SchemaPlace& place) {
  const SchemaPlace all = place / "allOf";
  if (!all.json->is_array() || all.json->empty()) place.fail("allOf", "expected a list of schemas");
  SchemaPlace merged = document_.without(place, {"allOf"});
  for (std::size_t i = 0; i < all.json->size(); ++i)
    merged = document_.merged(merged, document_.resolved(all / i));
  if (*merged.json == false) place.fail("allOf", "no value obeys all of its parts");
  return schema({merged.json, place.path});
}

GrammarExpression SchemaCompiler::chosen(const SchemaPlace& place, const char* keyword) {
  const SchemaPlace branches = place / keyword;
  if (!branches.json->is_array() || branches.json->empty()) place.fail(keyword, "expected a list of schemas");
  if (std::string_view(keyword) == "oneOf") demand_disjoint(place, branches);
  const SchemaPlace rest = document_.without(place, {keyword});
  const bool has_rest = has_constraints(*rest.json);
  std::vector<GrammarExpression> choices;
  for (std::size_t i = 0; i < branches.json->size(); ++i)
    choices.push_back(
        schema(has_rest ? document_.merged(rest, document_.resolved(branches / i)) : branches / i));
  return builder_.any_of(std::move(choices));
}

void SchemaCompiler::demand_disjoint(const SchemaPlace& place, const SchemaPlace& branches) {
  if (branches.json->size() > kMaxDisjoint)
    place.fail("oneOf", "more than " + std::to_string(kMaxDisjoint) + " branches, use anyOf");
  std::vector<SchemaPlace> resolved;
  for (std::size_t i = 0; i < branches.json->size(); ++i)
    resolved.push_back(document_.resolved(branches / i));
  for (std::size_t i = 0; i < resolved.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!are_disjoint(document_, resolved[j], resolved[i], comparisons_left_))
        place.fail("oneOf", "branches " + std::to_string(j) + " and " + std::to_string(i) +
                                " may be obeyed at once, use anyOf");
}

GrammarExpression SchemaCompiler::constants(const SchemaPlace& place) {
  std::vector<std::string> texts;
  for (const SchemaJson& value : values_of(place)) texts.push_back(text_.literal(value));
  return builder_.any_text(std::move(texts));
}

// Of enum and const. Other keywords beside them would have to be checked for each value.
std::vector<SchemaJson> SchemaCompiler::values_of(const SchemaPlace& place) const {
  for (const auto& [keyword, value] : place.json->items())
    if (keyword != "enum" && keyword != "const" && keyword != "type" && keyword != "nullable" &&
        keyword != "format" && !is_annotation(keyword))
      place.fail(keyword.c_str(), "is not supported beside enum or const");
  SchemaJson values = SchemaJson::array();
  if (const SchemaJson* listed = place.find("enum")) {
    if (!listed->is_array()) place.fail("enum", "expected a list");
    values = *listed;
  }
  if (const SchemaJson* only = place.find("const")) {
    if (place.find("enum") != nullptr && std::find(values.begin(), values.end(), *only) == values.end())
      place.fail("const", "is not in enum");
    values = SchemaJson::array({*only});
  }
  const std::vector<std::string> types = types_of(place);
  std::vector<SchemaJson> allowed;
  for (const SchemaJson& value : values) {
    const bool is_null_allowed = value.is_null() && is_true(place.find("nullable"));
    if (types.empty() || is_null_allowed ||
        std::any_of(types.begin(), types.end(),
                    [&](const std::string& type) { return has_type(value, type); }))
      allowed.push_back(value);
  }
  if (allowed.empty()) place.fail("no value of enum or const has the type");
  return allowed;
}

std::vector<std::string> SchemaCompiler::types_of(const SchemaPlace& place) const {
  static constexpr std::array kTypes{"object", "array", "string", "integer", "number", "boolean", "null"};
  const SchemaJson* type = place.find("type");
  const bool has_values = place.find("enum") != nullptr || place.find("const") != nullptr;
  if (type == nullptr) return has_values ? std::vector<std::string>() : implied_types(place);
  std::vector<std::string> types;
  for (const SchemaJson& one : type->is_array() ? *type : SchemaJson::array({*type})) {
    if (!one.is_string() || std::find(kTypes.begin(), kTypes.end(), one) == kTypes.end())
      place.fail("type", "expected the name of a JSON type, got " + one.dump());
    types.push_back(one.get<std::string>());
  }
  if (types.empty()) place.fail("type", "no type is allowed");
  // Integers are numbers: both would allow each of them twice.
  if (std::find(types.begin(), types.end(), "number") != types.end()) std::erase(types, "integer");
  return types;
}

GrammarExpression SchemaCompiler::typed(const SchemaPlace& place, const std::string& type) {
  if (type == "object") return object(place);
  if (type == "array") return array(place);
  if (type == "string") return string(place);
  if (type == "integer") return integer(place);
  if (type == "number") return number(place);
  return type == "boolean" ? text_.boolean() : text_.null();
}

GrammarExpression SchemaCompiler::object(const SchemaPlace& place) {
  const SchemaJson* properties = place.find("properties");
  if (properties != nullptr && !properties->is_object()) place.fail("properties", "expected an object");
  const std::vector<std::string> required = required_names(place);
  const std::optional<GrammarExpression> other = other_member(place);
  const Count number = count(place, "minProperties", "maxProperties");
  // The same free name may come twice, and is one property.
  if (required.empty() && number.min > (other ? 1U : 0U))
    place.fail("minProperties", "is supported up to the number required, or as 1");
  if ((properties == nullptr || properties->empty()) && required.empty())
    return text_.enclosed("{", other ? text_.list(*other, number.min, number.max) : builder_.empty(), "}");
  std::set<std::string> named(required.begin(), required.end());
  if (properties != nullptr)
    for (const auto& [name, schema] : properties->items()) named.insert(name);
  if (number.min > required.size())
    place.fail("minProperties", "is supported up to the number required, or as 1");
  if (number.max < named.size() || (other && number.max != kUnboundedCount))
    place.fail("maxProperties", "is not supported beside properties");
  return text_.enclosed("{", members(place, required, other), "}");
}

// A member that the schema doesn't name; nullopt: there may be none.
std::optional<GrammarExpression> SchemaCompiler::other_member(const SchemaPlace& place) {
  std::vector<std::string> names;
  if (const SchemaJson* properties = place.find("properties"))
    for (const auto& [name, schema] : properties->items()) names.push_back(name);
  if (const SchemaJson* required = place.find("required"))
    for (const SchemaJson& name : *required) names.push_back(name.get<std::string>());
  for (const std::string& name : names)
    if (name.size() > kMaxKeyBytes)
      place.fail("a property's name of " + std::to_string(name.size()) + " bytes");
  const SchemaJson* additional = place.find("additionalProperties");
  const bool says_members = place.find("properties") != nullptr || !names.empty();
  if (additional == nullptr && says_members && !options_.has_additional_properties) return std::nullopt;
  if (additional != nullptr && *additional == false) return std::nullopt;
  const GrammarExpression value =
      additional == nullptr ? text_.any_value() : schema(place / "additionalProperties");
  return text_.pair(names.empty() ? text_.any_string() : text_.key_beside(names), value);
}

// In order: those with a schema, those only required, then others. A member behind another begins with
// a comma, so there are two rules for each: of a list that has begun, and of one that has not.
GrammarExpression SchemaCompiler::members(const SchemaPlace& place, const std::vector<std::string>& required,
                                          std::optional<GrammarExpression> other) {
  struct Member {
    GrammarRule pair{};
    bool is_required = false;
  };
  std::vector<Member> members;
  const auto add = [&](const std::string& name, GrammarExpression value, bool is_required) {
    members.push_back({.pair = builder_.declare_rule(), .is_required = is_required});
    builder_.define(members.back().pair, text_.pair(name, value));
  };
  const std::set<std::string> is_required(required.begin(), required.end());
  std::set<std::string> is_described;
  if (place.find("properties") != nullptr) {
    const SchemaPlace properties = place / "properties";
    for (const auto& [name, value] : properties.json->items()) {
      add(name, schema(properties.member(name, value)), is_required.contains(name));
      is_described.insert(name);
    }
  }
  for (const std::string& name : required) {
    if (is_described.contains(name)) continue;
    const SchemaJson* additional = place.find("additionalProperties");
    if (additional != nullptr && *additional == false)
      place.fail("required", "'" + name + "' is not among the properties");
    add(name, additional == nullptr ? text_.any_value() : schema(place / "additionalProperties"), true);
  }

  const GrammarRule others = builder_.declare_rule();  // of a list that has begun
  builder_.define(others,
                  other ? builder_.repeat(builder_.sequence({text_.comma(), *other}), 0, kUnboundedCount)
                        : builder_.empty());
  std::vector<GrammarRule> tails(members.size() + 1, others);
  for (std::size_t i = members.size(); i-- > 1;) {
    const auto part = builder_.sequence({text_.comma(), builder_.call(members[i].pair)});
    tails[i] = builder_.declare_rule();
    builder_.define(tails[i], builder_.sequence({members[i].is_required ? part : builder_.optional(part),
                                                 builder_.call(tails[i + 1])}));
  }
  std::vector<GrammarExpression> choices;
  for (std::size_t i = 0; i < members.size(); ++i) {
    choices.push_back(builder_.sequence({builder_.call(members[i].pair), builder_.call(tails[i + 1])}));
    if (members[i].is_required) return builder_.any_of(std::move(choices));
  }
  choices.push_back(builder_.empty());
  if (other) choices.push_back(builder_.sequence({*other, builder_.call(others)}));
  return builder_.any_of(std::move(choices));
}

GrammarExpression SchemaCompiler::array(const SchemaPlace& place) {
  const SchemaJson* items = place.find("items");
  const bool has_old_prefix = items != nullptr && items->is_array();
  const char* prefix_keyword = has_old_prefix ? "items" : "prefixItems";
  const SchemaJson* prefix = place.find(prefix_keyword);
  if (prefix != nullptr && !prefix->is_array()) place.fail(prefix_keyword, "expected a list of schemas");
  const Count number = count(place, "minItems", "maxItems");
  const bool is_closed = items != nullptr && *items == false;
  const auto rest = items == nullptr || has_old_prefix ? text_.any_value() : schema(place / "items");
  const auto num_prefix = static_cast<std::uint32_t>(prefix == nullptr ? 0 : prefix->size());
  if (num_prefix == 0)
    return text_.enclosed("[", text_.list(rest, number.min, is_closed ? 0 : number.max), "]");

  // Behind the prefix, then in front of each of it.
  GrammarExpression tail = builder_.empty();
  if (number.max > num_prefix && !is_closed)
    tail = builder_.repeat(builder_.sequence({text_.comma(), rest}),
                           std::max(number.min, num_prefix) - num_prefix,
                           number.max == kUnboundedCount ? kUnboundedCount : number.max - num_prefix);
  else if (number.min > num_prefix)
    tail = builder_.nothing();
  for (std::uint32_t i = std::min(num_prefix, number.max); i-- > 0;) {
    const GrammarExpression item = schema(place / prefix_keyword / i);
    tail = i == 0 ? builder_.sequence({item, tail}) : builder_.sequence({text_.comma(), item, tail});
    if (i >= number.min) tail = builder_.optional(tail);
  }
  return text_.enclosed("[", tail, "]");
}

GrammarExpression SchemaCompiler::string(const SchemaPlace& place) {
  const Count length = count(place, "minLength", "maxLength");
  const auto pattern = pattern_of(place, length);
  if (!pattern) return text_.any_string(length.min, length.max);
  return text_.quoted(
      regex_expression(builder_, *pattern, [&](const CharacterSet& set) { return text_.spelled(set); }));
}

// Of pattern or format; nullopt: there is neither. With bounds of the length only where these can be
// said: a repetition of one set of characters, or a pattern whose texts are all within them.
std::optional<RegexNode> SchemaCompiler::pattern_of(const SchemaPlace& place, Count length) const {
  const SchemaJson* given = place.find("pattern");
  const SchemaJson* format = place.find("format");
  if (given != nullptr && format != nullptr) place.fail("format", "is not supported beside pattern");
  if (given == nullptr && format == nullptr) return std::nullopt;
  const char* keyword = given != nullptr ? "pattern" : "format";
  if (given != nullptr && !given->is_string()) place.fail("pattern", "expected a text");
  std::string pattern = given != nullptr ? given->get<std::string>() : "";
  if (format != nullptr) {
    const auto known = format->is_string() ? pattern_of_format(format->get<std::string>()) : std::nullopt;
    if (!known) place.fail("format", format->dump() + " is not supported");
    pattern = "^(?:" + *known + ")$";
  }
  RegexNode node;
  try {
    node = found_anywhere(parse_regex_syntax(pattern));
  } catch (const GrammarError& error) {
    place.fail(keyword, error.what());
  }
  const RegexLengths lengths = lengths_of(node);
  if (lengths.min < length.min || lengths.max > length.max) {
    while (node.kind == RegexNode::Kind::kSequence && node.parts.size() == 1) {
      RegexNode only = std::move(node.parts.front());
      node = std::move(only);
    }
    if (node.kind != RegexNode::Kind::kRepeat || node.parts.front().kind != RegexNode::Kind::kCharacters)
      place.fail(lengths.min < length.min ? "minLength" : "maxLength",
                 std::string("is not supported beside this ") + keyword);
    node.min = std::max(node.min, length.min);
    node.max = std::min(node.max, length.max);
    if (node.min > node.max) place.fail("minLength and maxLength contradict the pattern");
  }
  return node;
}

GrammarExpression SchemaCompiler::integer(const SchemaPlace& place) {
  if (const SchemaJson* factor = number_at(place, "multipleOf"); factor != nullptr && *factor != 1)
    place.fail("multipleOf", "is supported as 1 for integers");
  std::int64_t min = -kMaxJsonInteger, max = kMaxJsonInteger;
  const auto bound = [&](const char* keyword, bool is_min) -> std::optional<std::int64_t> {
    const SchemaJson* value = number_at(place, keyword);
    if (value == nullptr) return std::nullopt;
    const bool is_exclusive = std::string_view(keyword).starts_with("exclusive");
    const auto [whole, is_whole] = whole_of(*value, is_min);
    const std::int64_t limit = !is_exclusive || !is_whole ? whole : is_min ? whole + 1 : whole - 1;
    if (is_min ? limit > kMaxJsonInteger : limit < -kMaxJsonInteger)
      place.fail(keyword, "no integer of the 18 digits that are supported is within it");
    return limit;
  };
  for (const char* keyword : {"minimum", "exclusiveMinimum"})
    if (const auto value = bound(keyword, true)) min = std::max(min, *value);
  for (const char* keyword : {"maximum", "exclusiveMaximum"})
    if (const auto value = bound(keyword, false)) max = std::min(max, *value);
  if (min > max) place.fail("no integer is within the bounds");
  return json_integer(builder_, min, max);
}

GrammarExpression SchemaCompiler::number(const SchemaPlace& place) {
  NumberBounds bounds;
  if (const SchemaJson* factor = number_at(place, "multipleOf")) {
    if (*factor == 1) return integer(place);
    const std::string text = decimal_text(*factor);
    if (!text.starts_with("0.") || text.find_first_not_of('0', 2) != text.size() - 1 || text.back() != '1')
      place.fail("multipleOf", "is supported as 1, 0.1, 0.01 and so on");
    bounds.max_fraction_digits = static_cast<std::uint32_t>(text.size() - 2);
  }
  const auto bound = [&](const char* keyword, bool is_exclusive) -> std::optional<DecimalBound> {
    const SchemaJson* value = number_at(place, keyword);
    if (value == nullptr) return std::nullopt;
    const auto decimal = decimal_bound(decimal_text(*value), is_exclusive);
    if (!decimal) place.fail(keyword, "a bound with more digits than are supported");
    return decimal;
  };
  if (place.find("minimum") != nullptr && place.find("exclusiveMinimum") != nullptr)
    place.fail("exclusiveMinimum", "is not supported beside minimum");
  if (place.find("maximum") != nullptr && place.find("exclusiveMaximum") != nullptr)
    place.fail("exclusiveMaximum", "is not supported beside maximum");
  bounds.lower = bound("minimum", false);
  if (!bounds.lower) bounds.lower = bound("exclusiveMinimum", true);
  bounds.upper = bound("maximum", false);
  if (!bounds.upper) bounds.upper = bound("exclusiveMaximum", true);
  return json_number(builder_, bounds);
}

SchemaCompiler::Count SchemaCompiler::count(const SchemaPlace& place, const char* min,
                                            const char* max) const {
  const auto number = [&](const char* keyword, std::uint32_t otherwise) {
    const SchemaJson* value = place.find(keyword);
    if (value == nullptr) return otherwise;
    if (!has_type(*value, "integer") || *value < 0) place.fail(keyword, "expected a number, 0 or more");
    if (*value > GrammarBuilder::kMaxRepetitions)
      place.fail(keyword, "is supported up to " + std::to_string(GrammarBuilder::kMaxRepetitions));
    return value->get<std::uint32_t>();
  };
  const Count count{.min = number(min, 0), .max = number(max, kUnboundedCount)};
  if (count.min > count.max) place.fail(min, std::string("is above ") + max);
  return count;
}

}  // namespace troupe
