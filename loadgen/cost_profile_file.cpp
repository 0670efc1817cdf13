// SPDX-License-Identifier: Apache-2.0
#include "loadgen/cost_profile_file.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "loadgen/atomic_file.hpp"
#include "loadgen/json_fields.hpp"

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

EvictionPolicy policy_from(const JsonFields& fields) {
  const std::string name = fields.text("cache_policy");
  if (name == "value") return EvictionPolicy::kValue;
  if (name == "lru") return EvictionPolicy::kLru;
  throw std::runtime_error(fields.where() + ": 'cache_policy': expected value or lru, got '" + name + "'");
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

ServingSettings serving_from(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  ServingSettings serving;
  serving.pages = {.page_size = count(fields, "page_size"),
                   .look_ahead_pages = count(fields, "look_ahead_pages"),
                   .kept_free = count(fields, "kept_free_pages")};
  serving.num_pages = count(fields, "num_pages");
  const std::uint64_t capacity = std::uint64_t{serving.num_pages} * serving.pages.page_size;
  serving.limits = {.context_length = count(fields, "context_length"),
                    .page_capacity = static_cast<std::uint32_t>(std::min(capacity, kMost)),
                    .vocabulary_size = count(fields, "vocabulary_size")};
  serving.batch = {.max_tokens = count(fields, "max_batch_tokens"),
                   .max_sequences = count(fields, "max_batch_sequences"),
                   .prefill_chunk = count(fields, "prefill_chunk"),
                   .separates_prefill =  // profiles of before don't know it
                   fields.has("separate_prefill") && fields.boolean("separate_prefill")};
  serving.max_in_flight = count(fields, "max_in_flight");
  serving.max_waiting = count(fields, "max_waiting");
  serving.max_queue_time = std::chrono::milliseconds(count(fields, "max_queue_ms"));
  serving.prefix_cache = fields.boolean("prefix_cache");
  serving.cache_policy = policy_from(fields);
  serving.num_host_pages = count(fields, "num_host_pages");
  serving.copy_ahead_below = fields.real("copy_ahead_below");
  serving.recompute_cost.constant = fields.real("recompute_constant");
  serving.recompute_cost.attention = numbers(fields, "recompute_attention");
  return serving;
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
  CostProfile profile{.model = fields.text("model"),
                      .device = fields.text("device"),
                      .hardware = fields.text("hardware"),
                      .measured = fields.text("measured"),
                      .serving = serving_from(member(json, "serving", where), where + ": serving"),
                      .iteration = iteration_from(member(json, "iteration", where), where + ": iteration"),
                      .overheads = overheads_from(member(json, "overheads", where), where + ": overheads")};
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
