// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/cost_profile_file.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "loadgen/json_fields.hpp"
#include "loadgen/result/atomic_file.hpp"

namespace troupe::loadgen {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "troupe cost profile 1";
constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error(file.string() + ": cannot be read");
  try {
    return nlohmann::json::parse(stream);
  } catch (const nlohmann::json::parse_error& error) {
    throw std::runtime_error(file.string() + ": expected JSON, but " + error.what());
  }
}

const nlohmann::json& member(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end()) throw std::runtime_error(where + ": '" + key + "' is missing");
  return *found;
}

std::uint32_t count(const JsonFields& fields, const char* key) {
  return static_cast<std::uint32_t>(fields.number(key, kMost));
}

std::vector<double> numbers(const JsonFields& fields, const char* key) {
  std::vector<double> numbers;
  for (const auto& number : fields.array(key)) {
    if (!number.is_number())
      throw std::runtime_error(fields.where() + ": '" + key + "': expected numbers, got " + number.dump());
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

LoadCost load_cost(const JsonFields& fields, const char* key) {
  const auto costs = numbers(fields, key);
  if (costs.size() != 2)
    throw std::runtime_error(fields.where() + ": '" + key +
                             "': expected two numbers, fixed and a page, got " +
                             std::to_string(costs.size()));
  return {.fixed = costs[0], .per_page = costs[1]};
}

// Names that profiles had for some of it when they were not yet those of the flags.
void read_old_names(const JsonFields& fields, ProfiledServer& server) {
  ServingSettings& settings = server.settings;
  if (!fields.has("itl_factor")) settings.itl_factor = 0;
  if (fields.has("max_queue_ms"))
    settings.max_queue_time = std::chrono::milliseconds(count(fields, "max_queue_ms"));
  if (fields.has("copy_ahead_below")) settings.copy_ahead_below = fields.real("copy_ahead_below");
  if (fields.has("kept_free_pages"))
    settings.keep_free = (count(fields, "kept_free_pages") + 0.5) / std::max(server.num_pages, 1U);
  if (fields.has("prefix_cache") && !fields.boolean("prefix_cache"))
    settings.cache_policy = EvictionPolicy::kNone;
}

// Returns what is wrong with the value, or nothing.
std::optional<std::string> set_from(const nlohmann::json& value, const Setting<ServingSettings>& setting,
                                    ServingSettings& settings) {
  if (setting.is_switch() != value.is_boolean())
    return (setting.is_switch() ? "expected true or false, got " : "expected no boolean, got ") +
           value.dump();
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return set_place(setting.field.in(settings), unlimited(setting.rule()), text);
}

// What a profile does not name is as it is by default.
ServingSettings settings_from(const nlohmann::json& json, const std::string& where) {
  ServingSettings settings;
  for (const auto& setting : serving_table()) {
    const auto name = profile_name(setting.flag);
    const auto found = json.find(name);
    if (found == json.end()) continue;
    if (const auto wrong = set_from(*found, setting, settings))
      throw std::runtime_error(where + ": '" + name + "': " + *wrong);
  }
  return settings;
}

ProfiledServer serving_from(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  ProfiledServer server;
  server.page_size = count(fields, "page_size");
  server.num_pages = count(fields, "num_pages");
  server.num_host_pages = count(fields, "num_host_pages");
  const std::uint64_t capacity = std::uint64_t{server.num_pages} * server.page_size;
  server.limits = {.context_length = count(fields, "context_length"),
                   .page_capacity = static_cast<std::uint32_t>(std::min(capacity, kMost)),
                   .vocabulary_size = count(fields, "vocabulary_size")};
  server.settings = settings_from(json, where);
  read_old_names(fields, server);
  server.recompute_cost.constant = fields.real("recompute_constant");
  server.recompute_cost.attention = numbers(fields, "recompute_attention");
  if (fields.has("load_from_host_ns")) server.load_from_host = load_cost(fields, "load_from_host_ns");
  if (fields.has("num_disk_pages")) server.num_disk_pages = count(fields, "num_disk_pages");
  if (fields.has("disk_ns")) server.disk = load_cost(fields, "disk_ns");
  return server;
}

IterationCost iteration_from(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  IterationCost cost{.fixed = fields.real("fixed_ns"),
                     .knots = {},
                     .slopes = {},
                     .per_sequence = fields.real("per_sequence_ns"),
                     .per_output_row = fields.real("per_output_row_ns"),
                     .per_decode_key = fields.real("per_decode_key_ns"),
                     .per_prefill_pair = fields.real("per_prefill_pair_ns")};
  for (const auto& knot : fields.array("knots")) {
    if (!knot.is_number_unsigned() || knot.get<std::uint64_t>() > kMost)
      throw std::runtime_error(where + ": 'knots': expected numbers of tokens, got " + knot.dump());
    cost.knots.push_back(knot.get<std::uint32_t>());
  }
  cost.slopes = numbers(fields, "slopes_ns");
  return cost;
}

GraphKind graphs_from(const JsonFields& fields) {
  const std::string text = fields.text("graphs");
  if (text == "chain") return GraphKind::kChain;
  if (text == "encode_decode") return GraphKind::kEncodeDecode;
  if (text == "tree") return GraphKind::kTree;
  throw std::runtime_error(fields.where() + ": 'graphs': expected chain, encode_decode or tree, got '" +
                           text + "'");
}

ProfiledCells cells_from(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  ProfiledCells cells{.graphs = graphs_from(fields), .num_rows = count(fields, "num_rows"), .types = {}};
  for (const auto& type : fields.array("types")) {
    const std::string which = where + ": types[" + std::to_string(cells.types.size()) + "]";
    const JsonFields of_type(type, which);
    cells.types.push_back({.name = of_type.text("name"),
                           .priority = static_cast<std::uint8_t>(
                               of_type.number("priority", std::numeric_limits<std::uint8_t>::max())),
                           .max_batch = count(of_type, "max_batch"),
                           .cost = iteration_from(member(type, "cost", which), which + ": cost")});
  }
  return cells;
}

void add_flags(const JsonFields& fields, const nlohmann::json& json, const char* key, bool are_default,
               std::vector<ProfiledFlag>& flags) {
  if (!fields.has(key)) return;
  const std::string where = fields.where() + ": " + key;
  const JsonFields of_flags(json[key], where);
  for (const auto& [name, value] : json[key].items())
    flags.push_back({.name = name, .value = of_flags.text(name.c_str()), .is_default = are_default});
}

ServingOverheads overheads_from(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  return {.request = fields.real("request_ns"),
          .per_prompt_token = fields.real("per_prompt_token_ns"),
          .turnaround = fields.real("turnaround_ns"),
          .iteration = fields.real("iteration_ns"),
          .iteration_per_sequence = fields.real("iteration_per_sequence_ns"),
          .end = fields.real("end_ns")};
}

}  // namespace

CostProfile read_cost_profile(const std::filesystem::path& file) {
  const nlohmann::json json = read_json(file);
  const std::string where = file.string();
  const JsonFields fields(json, where);
  if (const auto format = fields.text("format"); format != kFormat)
    throw std::runtime_error(where + ": 'format': expected '" + kFormat + "', got '" + format + "'");
  CostProfile profile{
      .model = fields.text("model"),
      .device = fields.text("device"),
      .hardware = fields.text("hardware"),
      .measured = fields.text("measured"),
      .serving = serving_from(member(json, "serving", where), where + ": serving"),
      .iteration = iteration_from(member(json, "iteration", where), where + ": iteration"),
      .residuals = fields.has("residuals") ? numbers(fields, "residuals") : std::vector<double>{},
      .overheads = overheads_from(member(json, "overheads", where), where + ": overheads")};
  add_flags(fields, json, "flags", false, profile.flags);
  add_flags(fields, json, "default_flags", true, profile.flags);
  if (fields.has("cells")) {
    profile.cells = cells_from(member(json, "cells", where), where + ": cells");
    profile.serving.limits.page_capacity = profile.serving.limits.context_length;  // it has no pages
  }
  if (const auto problem = profile_problem(profile); !problem.empty())
    throw std::runtime_error(where + ": " + problem);
  return profile;
}

void write_with_overheads(const std::filesystem::path& from, const std::filesystem::path& to,
                          const ServingOverheads& overheads) {
  std::ifstream stream(from, std::ios::binary);
  if (!stream) throw std::runtime_error(from.string() + ": cannot be read");
  Json json = Json::parse(stream, nullptr, false);
  if (!json.is_object()) throw std::runtime_error(from.string() + ": expected a JSON object");
  json["overheads"] = {{"request_ns", overheads.request},
                       {"per_prompt_token_ns", overheads.per_prompt_token},
                       {"turnaround_ns", overheads.turnaround},
                       {"iteration_ns", overheads.iteration},
                       {"iteration_per_sequence_ns", overheads.iteration_per_sequence},
                       {"end_ns", overheads.end}};
  write_file_atomically(to, json.dump(2) + "\n");
}

}  // namespace troupe::loadgen
