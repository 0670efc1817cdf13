// SPDX-License-Identifier: Apache-2.0
#include "app/costs/page_cost_file.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpu/kept_file.hpp"

namespace troupe {

const char* const kPageCostFile = "page-costs.json";

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostContexts = 32;
constexpr double kLongest = 1e13;  // ns; nearly three hours for a page are no measurement

bool is_time(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0 &&
         value.get<double>() <= kLongest;
}

// A member that may be absent.
const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

// Times in nanoseconds; nullopt if one is none.
std::optional<std::vector<double>> times_of(const Json& list, std::size_t least, std::size_t most) {
  if (!list.is_array() || list.size() < least || list.size() > most) return std::nullopt;
  std::vector<double> times;
  for (const Json& time : list) {
    if (!is_time(time)) return std::nullopt;
    times.push_back(time.get<double>());
  }
  return times;
}

RestoreCosts costs_of(const Json& file) {
  const Json& constant = member(file, "constant_ns");
  const auto attention = times_of(member(file, "attention_ns"), 0, kMostContexts);
  const auto host = times_of(member(file, "load_from_host_ns"), 2, 2);
  const auto disk = times_of(member(file, "load_from_disk_ns"), 2, 2);
  if (!is_time(constant) || constant.get<double>() <= 0 || !attention || !host || !disk)
    throw std::runtime_error("expected times in nanoseconds");
  return {.recompute = {.constant = constant.get<double>(), .attention = *attention},
          .host = {.fixed = host->front(), .per_page = host->back()},
          .disk = {.fixed = disk->front(), .per_page = disk->back()}};
}

}  // namespace

std::optional<RestoreCosts> read_page_costs(int directory, const std::string& key) {
  const auto text = read_kept_file(directory, kPageCostFile, kMostBytes);
  if (!text) return std::nullopt;
  const Json file = Json::parse(*text, nullptr, false);
  if (!file.is_object() || member(file, "format") != kFormat)
    throw std::runtime_error("expected JSON of format " + std::to_string(kFormat));
  if (member(file, "key") != key) throw std::runtime_error("measured for another model, machine or version");
  return costs_of(file);
}

void write_page_costs(int directory, const std::string& key, const RestoreCosts& costs) {
  const Json json = {{"format", kFormat},
                     {"key", key},
                     {"constant_ns", costs.recompute.constant},
                     {"attention_ns", costs.recompute.attention},
                     {"load_from_host_ns", {costs.host.fixed, costs.host.per_page}},
                     {"load_from_disk_ns", {costs.disk.fixed, costs.disk.per_page}}};
  replace_kept_file(directory, kPageCostFile, json.dump(2) + "\n");
}

}  // namespace troupe
