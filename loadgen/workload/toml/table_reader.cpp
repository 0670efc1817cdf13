// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/table_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "telemetry/nearest_name.hpp"

namespace troupe::loadgen {
namespace {

std::string shown(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  std::ostringstream text;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) text << value;
  });
  return node.is_string() ? "\"" + *node.value<std::string>() + "\"" : text.str();
}

template <typename Count>
void read_count(TableReader& reader, std::string_view key, Count& value) {
  const auto* node = reader.find(key);
  if (node == nullptr) return;
  const auto* number = node->as_integer();
  if (number == nullptr || !std::in_range<Count>(number->get()))
    reader.refuse(*node, key,
                  "a whole number from 0 to " + std::to_string(std::numeric_limits<Count>::max()));
  value = static_cast<Count>(number->get());
}

}  // namespace

toml::table parse_toml_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file))
    throw std::runtime_error(file.string() + ": can't be read: " + std::strerror(stream ? EISDIR : errno));
  try {
    return toml::parse(stream, file.string());
  } catch (const toml::parse_error& error) {
    throw std::runtime_error(file.string() + ":" + std::to_string(error.source().begin.line) + ": " +
                             std::string(error.description()));
  }
}

void TableReader::read(std::string_view key, double& value) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!node->is_number()) refuse(*node, key, "a number");
  value = *node->value<double>();
}

void TableReader::read(std::string_view key, std::uint32_t& value) { read_count(*this, key, value); }

void TableReader::read(std::string_view key, std::uint64_t& value) { read_count(*this, key, value); }

void TableReader::read(std::string_view key, bool& value) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!node->is_boolean()) refuse(*node, key, "true or false");
  value = node->as_boolean()->get();
}

void TableReader::read(std::string_view key, std::string& value) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!node->is_string()) refuse(*node, key, "a text");
  value = node->as_string()->get();
}

void TableReader::read(std::string_view key, std::vector<double>& value) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array()) refuse(*node, key, "a list of numbers");
  value.clear();
  for (const auto& element : *node->as_array()) {
    if (!element.is_number()) refuse(element, key, "a list of numbers");
    value.push_back(*element.value<double>());
  }
}

void TableReader::read(std::string_view key, std::vector<std::string>& value) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array()) refuse(*node, key, "a list of texts");
  value.clear();
  for (const auto& element : *node->as_array()) {
    if (!element.is_string()) refuse(element, key, "a list of texts");
    value.push_back(*element.value<std::string>());
  }
}

std::string TableReader::read_choice(std::string_view key, const std::vector<std::string>& choices,
                                     std::string_view otherwise) {
  std::string value(otherwise);
  read(key, value);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  std::string expected;
  for (const auto& choice : choices) expected += (expected.empty() ? "one of " : ", ") + choice;
  refuse(*find(key), key, expected);
}

const toml::node* TableReader::find(std::string_view key) {
  known_.emplace_back(key);
  return table_.get(key);
}

std::string TableReader::name_of(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
}

void TableReader::refuse(const toml::node& node, std::string_view key, const std::string& expected) const {
  refuse_at(node.source(), name_of(key) + ": expected " + expected + ", got " + shown(node));
}

void TableReader::refuse_unknown_keys() const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const auto nearest = nearest_name(name, known_);
    refuse_at(node.source(), "unknown key '" + name_of(name) + "'" +
                                 (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
}

std::vector<const toml::table*> tables_of(const toml::node* node, const std::string& name) {
  std::vector<const toml::table*> tables;
  if (node == nullptr) return tables;
  const auto* list = node->as_array();
  if (list == nullptr) refuse_at(node->source(), name + ": expected a list of tables, got " + shown(*node));
  for (const auto& element : *list) {
    if (!element.is_table())
      refuse_at(element.source(), name + ": expected a list of tables, got " + shown(element));
    tables.push_back(element.as_table());
  }
  return tables;
}

void refuse_at(const toml::source_region& place, const std::string& what) {
  std::string where = place.path ? *place.path + ":" : "";
  if (place.begin.line > 0) where += (place.path ? "" : "line ") + std::to_string(place.begin.line) + ":";
  throw std::runtime_error(where.empty() ? what : where + " " + what);
}

}  // namespace troupe::loadgen
