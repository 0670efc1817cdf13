// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema_choice.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace troupe {
namespace {

using Types = std::set<std::string>;

// nullopt: any. An integer is a number.
std::optional<Types> types_of(const SchemaPlace& place) {
  const SchemaJson* type = place.find("type");
  if (type == nullptr) return std::nullopt;
  Types types;
  for (const SchemaJson& one : type->is_array() ? *type : SchemaJson::array({*type}))
    if (one.is_string()) types.insert(one == "integer" ? "number" : one.get<std::string>());
  if (const SchemaJson* nullable = place.find("nullable"); nullable != nullptr && *nullable == true)
    types.insert("null");
  return types;
}

// nullopt: not a constant, nor one of some.
std::optional<std::span<const SchemaJson>> values_of(const SchemaPlace& place) {
  if (const SchemaJson* value = place.find("const")) return std::span(value, 1);
  if (const SchemaJson* values = place.find("enum"); values != nullptr && values->is_array())
    return values->get_ref<const SchemaJson::array_t&>();
  return std::nullopt;
}

std::size_t size_of(const SchemaPlace& place, const char* keyword) {
  const SchemaJson* value = place.find(keyword);
  return value == nullptr ? 0 : value->size();
}

bool share_nothing(std::span<const SchemaJson> left, std::span<const SchemaJson> right) {
  return std::none_of(left.begin(), left.end(), [&](const SchemaJson& value) {
    return std::find(right.begin(), right.end(), value) != right.end();
  });
}

bool requires_member(const SchemaPlace& place, const std::string& name) {
  const SchemaJson* required = place.find("required");
  return required != nullptr && required->is_array() &&
         std::find(required->begin(), required->end(), name) != required->end();
}

}  // namespace

bool are_disjoint(const SchemaDocument& document, const SchemaPlace& left, const SchemaPlace& right,
                  std::size_t& comparisons_left) {
  const auto spend = [&](std::size_t num_comparisons) {
    if (num_comparisons > comparisons_left)
      right.fail("too much to compare with " + left.path + ", use anyOf");
    comparisons_left -= num_comparisons;
  };
  if (left.json->is_boolean() || right.json->is_boolean()) return *left.json == false || *right.json == false;
  if (!left.json->is_object() || !right.json->is_object()) return false;
  spend(size_of(left, "type") + size_of(right, "type"));
  const auto left_types = types_of(left), right_types = types_of(right);
  if (left_types && right_types &&
      std::none_of(left_types->begin(), left_types->end(),
                   [&](const std::string& type) { return right_types->contains(type); }))
    return true;
  const auto left_values = values_of(left), right_values = values_of(right);
  if (left_values && right_values) {
    spend(left_values->size() * right_values->size());
    return share_nothing(*left_values, *right_values);
  }
  const SchemaJson* left_properties = left.find("properties");
  const SchemaJson* right_properties = right.find("properties");
  if (left_properties == nullptr || right_properties == nullptr || !left_properties->is_object() ||
      !right_properties->is_object())
    return false;
  // A value that is no object obeys what is said of members.
  if (left_types != Types{"object"} || right_types != Types{"object"}) return false;
  for (const auto& [name, schema] : left_properties->items()) {
    spend(right_properties->size() + size_of(left, "required") + size_of(right, "required"));
    if (!right_properties->contains(name) || !requires_member(left, name) || !requires_member(right, name))
      continue;
    const SchemaPlace left_member = document.resolved(left / "properties" / name);
    const SchemaPlace right_member = document.resolved(right / "properties" / name);
    if (!left_member.json->is_object() || !right_member.json->is_object()) continue;
    const auto mine = values_of(left_member), others = values_of(right_member);
    if (!mine || !others) continue;
    spend(mine->size() * others->size());
    if (share_nothing(*mine, *others)) return true;
  }
  return false;
}

}  // namespace troupe
