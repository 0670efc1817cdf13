// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema_document.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr int kMaxReferences = 64;     // one after the other
constexpr std::size_t kCopyWork = 16;  // a byte copied, in bytes compared

std::string pointer_part(const std::string& key) {
  std::string part;
  for (const char c : key) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return part;
}

// "a%20b" is "a b": references are parts of URIs.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

// Counts while the document is read, before it is large.
class SchemaLimits {
 public:
  bool on(int depth, SchemaJson::parse_event_t event) {
    using Event = SchemaJson::parse_event_t;
    if (depth > static_cast<int>(SchemaDocument::kMaxDepth))
      throw GrammarError("the schema is nested deeper than " + std::to_string(SchemaDocument::kMaxDepth));
    const bool begins = event == Event::object_start || event == Event::array_start;
    if (!open_.empty() && open_.back().is_array && (begins || event == Event::value)) count();
    if (event == Event::key) count();
    if (begins) open_.push_back({.is_array = event == Event::array_start});
    if (event == Event::object_end || event == Event::array_end) open_.pop_back();
    return true;
  }

 private:
  struct Container {
    bool is_array = false;
    std::size_t num_members = 0;
  };

  void count() {
    if (++open_.back().num_members > SchemaDocument::kMaxMembers)
      throw GrammarError("an object or a list of the schema has more than " +
                         std::to_string(SchemaDocument::kMaxMembers) + " members");
  }

  std::vector<Container> open_;
};

SchemaJson array_of(const SchemaJson& value) { return value.is_array() ? value : SchemaJson::array({value}); }

bool holds(const SchemaJson& array, const SchemaJson& value) {
  return std::find(array.begin(), array.end(), value) != array.end();
}

SchemaJson common_types(const SchemaJson& left, const SchemaJson& right) {
  SchemaJson types = SchemaJson::array();
  const SchemaJson lefts = array_of(left), rights = array_of(right);
  for (const SchemaJson& type : lefts)
    if (holds(rights, type) || (type == "integer" && holds(rights, "number"))) types.push_back(type);
  for (const SchemaJson& type : rights)
    if (type == "integer" && holds(lefts, "number") && !holds(types, type)) types.push_back(type);
  return types;
}

SchemaJson common_values(const SchemaJson& left, const SchemaJson& right) {
  SchemaJson values = SchemaJson::array();
  for (const SchemaJson& value : left)
    if (holds(right, value)) values.push_back(value);
  return values;
}

SchemaJson both(const SchemaJson& left, const SchemaJson& right) {
  SchemaJson joined = SchemaJson::object();
  joined["allOf"] = SchemaJson::array({left, right});
  return joined;
}

SchemaJson all_properties(const SchemaJson& left, const SchemaJson& right) {
  SchemaJson properties = left;
  for (const auto& [name, schema] : right.items()) {
    const auto known = properties.find(name);
    if (known == properties.end())
      properties[name] = schema;
    else
      *known = both(*known, schema);
  }
  return properties;
}

SchemaJson all_names(const SchemaJson& left, const SchemaJson& right) {
  SchemaJson names = SchemaJson::array();
  std::set<std::string> known;  // as JSON
  for (const SchemaJson* list : {&left, &right})
    for (const SchemaJson& name : *list)
      if (known.insert(name.dump()).second) names.push_back(name);
  return names;
}

// nullopt-like null: no one value says both.
SchemaJson merged_keyword(const std::string& keyword, const SchemaJson& left, const SchemaJson& right) {
  const auto is_one_of = [&](std::initializer_list<const char*> keywords) {
    return std::find(keywords.begin(), keywords.end(), keyword) != keywords.end();
  };
  if (left == right) return left;
  if (keyword == "type") return common_types(left, right);
  if (left.is_object() && right.is_object() && keyword == "properties") return all_properties(left, right);
  if (left.is_array() && right.is_array()) {
    if (keyword == "required") return all_names(left, right);
    if (keyword == "enum") return common_values(left, right);
    if (keyword == "allOf") return all_names(left, right);
  }
  if (left.is_number() && right.is_number()) {
    if (is_one_of({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}))
      return std::max(left, right);
    if (is_one_of({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}))
      return std::min(left, right);
  }
  if (left.is_object() && right.is_object() && keyword == "items") return both(left, right);
  return nullptr;
}

// `nullable` as a type, so that another part's type can take it away. Without a type it stands for itself:
// beside a $ref it is how generators write a reference that may be null.
SchemaJson without_nullable(SchemaJson schema) {
  if (!schema.contains("nullable") || !schema.contains("type")) return schema;
  const bool is_nullable = schema["nullable"] == true;
  schema.erase("nullable");
  SchemaJson& type = schema["type"];
  if (is_nullable && !holds(array_of(type), "null")) {
    type = array_of(type);
    type.push_back("null");
  }
  return schema;
}

// A schema that closes its object must know all properties of the other.
bool closes_over(const SchemaJson& closed, const SchemaJson& other) {
  const auto additional = closed.find("additionalProperties");
  if (additional == closed.end() || *additional == true) return false;
  const auto others = other.find("properties");
  if (others == other.end() || !others->is_object()) return false;
  const auto known = closed.find("properties");
  for (const auto& [name, schema] : others->items())
    if (known == closed.end() || !known->is_object() || !known->contains(name)) return true;
  return false;
}

// `items` speaks of what is behind the prefix of its own schema.
bool items_differ_in_meaning(const SchemaJson& left, const SchemaJson& right) {
  const auto prefix_of = [](const SchemaJson& schema) {
    if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) return *prefix;
    const auto items = schema.find("items");
    return items != schema.end() && items->is_array() ? *items : SchemaJson::array();
  };
  const auto says_items = [](const SchemaJson& schema) {
    return schema.contains("items") || schema.contains("prefixItems");
  };
  return says_items(left) && says_items(right) && (left.contains("items") || right.contains("items")) &&
         prefix_of(left) != prefix_of(right);
}

}  // namespace

bool is_annotation(const std::string& keyword) {
  static constexpr std::string_view kConstraints[] = {"$dynamicRef",
                                                      "$recursiveRef",
                                                      "$ref",
                                                      "additionalItems",
                                                      "additionalProperties",
                                                      "allOf",
                                                      "anyOf",
                                                      "const",
                                                      "contains",
                                                      "dependencies",
                                                      "dependentRequired",
                                                      "dependentSchemas",
                                                      "else",
                                                      "enum",
                                                      "exclusiveMaximum",
                                                      "exclusiveMinimum",
                                                      "format",
                                                      "if",
                                                      "items",
                                                      "maxContains",
                                                      "maxItems",
                                                      "maxLength",
                                                      "maxProperties",
                                                      "maximum",
                                                      "minContains",
                                                      "minItems",
                                                      "minLength",
                                                      "minProperties",
                                                      "minimum",
                                                      "multipleOf",
                                                      "not",
                                                      "nullable",
                                                      "oneOf",
                                                      "pattern",
                                                      "patternProperties",
                                                      "prefixItems",
                                                      "properties",
                                                      "propertyNames",
                                                      "required",
                                                      "then",
                                                      "type",
                                                      "unevaluatedItems",
                                                      "unevaluatedProperties",
                                                      "uniqueItems"};
  return !std::binary_search(std::begin(kConstraints), std::end(kConstraints), std::string_view(keyword));
}

bool has_constraints(const SchemaJson& schema) {
  if (!schema.is_object()) return schema == false;
  for (const auto& [keyword, value] : schema.items())
    if (!is_annotation(keyword)) return true;
  return false;
}

SchemaPlace SchemaPlace::operator/(const std::string& key) const {
  return {&json->at(key), path + "/" + pointer_part(key)};
}

SchemaPlace SchemaPlace::operator/(std::size_t index) const {
  return {&json->at(index), path + "/" + std::to_string(index)};
}

SchemaPlace SchemaPlace::member(const std::string& key, const SchemaJson& value) const {
  return {&value, path + "/" + pointer_part(key)};
}

const SchemaJson* SchemaPlace::find(const char* keyword) const {
  const auto found = json->find(keyword);
  return found == json->end() ? nullptr : &*found;
}

void SchemaPlace::fail(const std::string& reason) const {
  throw GrammarError("schema, " + path + ": " + reason);
}

void SchemaPlace::fail(const char* keyword, const std::string& reason) const {
  throw GrammarError("schema, " + path + "/" + keyword + ": " + reason);
}

SchemaDocument::SchemaDocument(std::string_view text) {
  if (text.size() > kMaxBytes)
    throw GrammarError("a schema of " + std::to_string(text.size()) + " bytes, expected at most " +
                       std::to_string(kMaxBytes));
  SchemaLimits limits;
  try {
    root_ = SchemaJson::parse(text, [&](int depth, SchemaJson::parse_event_t event, const SchemaJson&) {
      return limits.on(depth, event);
    });
  } catch (const SchemaJson::exception& error) {
    throw GrammarError(std::string("the schema is not JSON: ") + error.what());
  }
}

SchemaPlace SchemaDocument::referred(const SchemaPlace& place) const {
  const SchemaJson& reference = place.json->at("$ref");
  if (!reference.is_string()) place.fail("$ref", "expected a text");
  const std::string& target = reference.get_ref<const std::string&>();
  if (!target.starts_with('#')) place.fail("$ref", "'" + target + "' is not in this schema");
  try {
    const SchemaJson::json_pointer pointer(percent_decoded(target.substr(1)));
    if (root_.contains(pointer)) return {&root_.at(pointer), target};
  } catch (const SchemaJson::exception&) {
  }
  place.fail("$ref", "'" + target + "' leads nowhere");
}

SchemaPlace SchemaDocument::resolved(SchemaPlace place) const {
  for (int i = 0; i < kMaxReferences; ++i) {
    if (!place.json->is_object() || !place.json->contains("$ref")) return place;
    for (const auto& [keyword, value] : place.json->items())
      if (keyword != "$ref" && !is_annotation(keyword)) return place;
    place = referred(place);
  }
  place.fail("$ref", "too many references, one after the other");
}

SchemaPlace SchemaDocument::merged(const SchemaPlace& left, const SchemaPlace& right) {
  if (left.json->is_boolean()) return *left.json ? right : left;
  if (right.json->is_boolean()) return *right.json ? left : right;
  if (!left.json->is_object() || !right.json->is_object()) left.fail("expected a schema");
  if (closes_over(*left.json, *right.json) || closes_over(*right.json, *left.json))
    right.fail("properties that additionalProperties of " + left.path + " doesn't allow, or the reverse");
  if (items_differ_in_meaning(*left.json, *right.json))
    right.fail(right.json->contains("items") ? "items" : "prefixItems",
               "can't be joined with " + left.path + ", whose prefixItems are others");
  work_on(kCopyWork * (left.json->dump().size() + right.json->dump().size()), right);
  SchemaJson merged = without_nullable(*left.json);
  const SchemaJson other = without_nullable(*right.json);
  for (const auto& [keyword, value] : other.items()) {
    const auto known = merged.find(keyword);
    if (known == merged.end()) {
      merged[keyword] = value;
      continue;
    }
    if (is_annotation(keyword)) continue;
    work_on(known->size() * value.dump().size(), right);
    SchemaJson both_say = merged_keyword(keyword, *known, value);
    if (both_say.is_null()) right.fail(keyword.c_str(), "can't be joined with " + left.path + "/" + keyword);
    if (both_say.empty() && (keyword == "type" || keyword == "enum")) return keep(false, right.path);
    *known = std::move(both_say);
  }
  return keep(std::move(merged), right.path);
}

SchemaPlace SchemaDocument::without(const SchemaPlace& place, std::initializer_list<const char*> keywords) {
  SchemaJson rest = *place.json;
  for (const char* keyword : keywords) rest.erase(keyword);
  return keep(std::move(rest), place.path);
}

void SchemaDocument::work_on(std::size_t num_bytes, const SchemaPlace& place) {
  work_ += num_bytes;
  if (work_ > kMaxWork) place.fail("too much to join");
}

SchemaPlace SchemaDocument::keep(SchemaJson json, const std::string& path) {
  merged_bytes_ += json.dump().size();
  if (merged_bytes_ > kMaxMergedBytes) throw GrammarError("schema, " + path + ": too much to join");
  made_.push_back(std::move(json));
  return {&made_.back(), path};
}

}  // namespace troupe
