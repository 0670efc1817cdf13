// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/quantile_grid.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

namespace troupe::loadgen {
namespace {

using nlohmann::json;

constexpr std::size_t kNumGridPoints = 1001;  // of objects, whose ranks are "p99.9" at the finest

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

json parsed(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) refuse(file, "cannot be opened");
  try {
    return json::parse(in);
  } catch (const json::exception& error) {
    refuse(file, std::string("expected JSON: ") + error.what());
  }
}

std::string keys_of(const json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) text += (text.empty() ? "" : ", ") + key;
  return text.empty() ? "none" : text;
}

const json& found(const json& root, const std::filesystem::path& file, const std::string& key) {
  const json* node = &root;
  std::string_view rest = key;
  while (!rest.empty()) {
    const std::string part(rest.substr(0, rest.find('.')));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!node->is_object() || !node->contains(part))
      refuse(file, "key '" + key + "': expected '" + part + "' among " +
                       (node->is_object() ? keys_of(*node) : "the members of an object"));
    node = &node->at(part);
  }
  return *node;
}

// "p99.9" is 0.999, "max" is 1; other members are no quantiles.
std::optional<double> rank_of(std::string_view name) {
  if (name == "max") return 1;
  if (!name.starts_with('p')) return std::nullopt;
  double percent = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), percent);
  if (error != std::errc{} || end != name.data() + name.size() || !(percent >= 0 && percent <= 100))
    return std::nullopt;
  return percent / 100;
}

double number_of(const json& value, const std::filesystem::path& file) {
  if (!value.is_number() || value.get<double>() < 0)
    refuse(file, "expected quantiles that are numbers of at least 0, got " + value.dump());
  return value.get<double>();
}

std::vector<double> evenly_spaced(const std::map<double, double>& value_at_rank) {
  std::vector<double> values;
  for (std::size_t i = 0; i < kNumGridPoints; ++i) {
    const double rank = static_cast<double>(i) / (kNumGridPoints - 1);
    const auto above = value_at_rank.lower_bound(rank);
    if (above == value_at_rank.begin()) {
      values.push_back(above->second);
      continue;
    }
    if (above == value_at_rank.end()) {
      values.push_back(value_at_rank.rbegin()->second);
      continue;
    }
    const auto below = std::prev(above);
    const double part = (rank - below->first) / (above->first - below->first);
    values.push_back(std::lerp(below->second, above->second, part));
  }
  return values;
}

}  // namespace

std::vector<double> read_quantile_grid(const std::filesystem::path& file, const std::string& key) {
  const auto root = parsed(file);
  const auto& grid = found(root, file, key);
  std::vector<double> values;
  if (grid.is_array()) {
    for (const auto& value : grid) values.push_back(number_of(value, file));
  } else if (grid.is_object()) {
    std::map<double, double> value_at_rank;
    for (const auto& [name, value] : grid.items())
      if (const auto rank = rank_of(name)) value_at_rank[*rank] = number_of(value, file);
    if (value_at_rank.size() >= 2) values = evenly_spaced(value_at_rank);
  }
  if (values.size() < 2)
    refuse(file, "key '" + key +
                     "': expected a list of at least two quantiles, or an object with p0 to p100" +
                     (grid.is_object() ? "; it has " + keys_of(grid) : ""));
  const auto fall = std::is_sorted_until(values.begin(), values.end());
  if (fall != values.end()) refuse(file, "key '" + key + "': expected quantiles that never decrease");
  return values;
}

double value_at(const std::vector<double>& quantiles, double rank) {
  const double place = rank * static_cast<double>(quantiles.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), quantiles.size() - 2);
  return std::lerp(quantiles[below], quantiles[below + 1], place - static_cast<double>(below));
}

}  // namespace troupe::loadgen
