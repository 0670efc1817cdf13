// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/result_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "loadgen/json_fields.hpp"
#include "loadgen/seconds.hpp"
#include "telemetry/json_depth.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Duration = std::chrono::nanoseconds;

// Raised when readers of older files would misunderstand.
constexpr const char* kFormat = "troupe-loadgen/1";
// 100 years: what is beyond was not measured, and would not fit.
constexpr double kMaxSeconds = 3.2e9;

// ---- writing

void put_statistics(ordered_json& out, const std::string& name, const LatencyStatistics& statistics) {
  const bool has_mean = statistics.count > 0;
  out["mean_" + name + "_ms"] = has_mean ? ordered_json(in_milliseconds(statistics.mean)) : ordered_json();
  out["median_" + name + "_ms"] = in_milliseconds(statistics.p50);
  out["std_" + name + "_ms"] =
      has_mean ? ordered_json(in_milliseconds(statistics.standard_deviation)) : ordered_json();
  out["p90_" + name + "_ms"] = in_milliseconds(statistics.p90);
  out["p95_" + name + "_ms"] = in_milliseconds(statistics.p95);
  out["p98_" + name + "_ms"] = in_milliseconds(statistics.p98);
  out["p99_" + name + "_ms"] = in_milliseconds(statistics.p99);
  out["max_" + name + "_ms"] = in_milliseconds(statistics.max);
  out["num_" + name] = statistics.count;
}

void put_measures(ordered_json& out, const Measures& measures) {
  out["num_prompts"] = measures.num_requests;
  out["completed"] = measures.num_completed;
  out["failed"] = measures.num_failed();
  for (std::size_t i = 0; i < kNumOutcomes; ++i)
    out["outcomes"][std::string(outcome_name(static_cast<Outcome>(i)))] = measures.num_by_outcome[i];
  out["good"] = measures.num_good;
  out["checked_answers"] = measures.num_checked;
  out["wrong_answers"] = measures.num_wrong;
  out["total_input_tokens"] = measures.prompt_tokens;
  out["total_cached_tokens"] = measures.cached_tokens;
  out["total_output_tokens"] = measures.output_tokens;
  out["cached_share"] = measures.cached_share();
  out["offered_rate"] = measures.offered_rate;
  out["request_throughput"] = measures.request_throughput;
  out["request_goodput"] = measures.goodput;
  out["output_throughput"] = measures.output_throughput;
  out["total_token_throughput"] = measures.total_throughput;
  const auto& latencies = measures.latencies;
  put_statistics(out, "ttft", latencies.time_to_first_token);
  put_statistics(out, "tpot", latencies.time_per_output_token);
  put_statistics(out, "itl", latencies.inter_token_latency);
  put_statistics(out, "e2el", latencies.end_to_end);
  put_statistics(out, "normalized_latency", latencies.normalized_latency);
  put_statistics(out, "client_delay", latencies.client_delay);
  put_statistics(out, "server_queue", latencies.server_queue);
}

ordered_json class_json(const RequestClass& request_class, const Measures& measures) {
  ordered_json out;
  out["name"] = request_class.name;
  out["objectives"]["ttft_ms"] = in_milliseconds(request_class.objectives.time_to_first_token);
  out["objectives"]["tpot_ms"] = in_milliseconds(request_class.objectives.time_per_output_token);
  out["objectives"]["e2el_ms"] = in_milliseconds(request_class.objectives.end_to_end);
  out["ignore_eos"] = request_class.ignore_eos;
  out["max_tokens"] = request_class.max_tokens;
  if (request_class.asked_tokens > 0) out["asked_tokens"] = request_class.asked_tokens;
  put_measures(out["measures"], measures);
  return out;
}

ordered_json sample_json(const ServerSample& sample) {
  return {{"time_s", in_seconds(sample.time)},
          {"running", sample.num_running},
          {"waiting", sample.num_waiting},
          {"pages_used", sample.pages_used},
          {"pages_total", sample.pages_total},
          {"batch_tokens", sample.batch_tokens},
          {"generation_tokens", sample.generation_tokens}};
}

// ---- reading

Duration duration_of(const JsonFields& fields, const char* key, double units_a_second) {
  const double seconds = fields.real(key) / units_a_second;
  if (seconds > kMaxSeconds)
    throw std::runtime_error(fields.where() + ": '" + key + "': longer than 100 years");
  return Duration(std::llround(seconds * 1e9));
}

// Element texts of a list of [name, value] pairs.
std::vector<std::pair<std::string, std::string>> settings_of(const JsonFields& fields) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& pair : fields.array("settings")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      throw std::runtime_error(fields.where() + ": 'settings': expected pairs of texts, got " +
                               pair.type_name());
    settings.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return settings;
}

RequestClass class_of(const json& value, const std::string& where) {
  const JsonFields fields(value, where);
  const auto objectives_where = where + ".objectives";
  const json none = json::object();
  const JsonFields objectives(fields.has("objectives") ? value["objectives"] : none, objectives_where);
  RequestClass request_class;
  request_class.name = fields.text("name");
  request_class.objectives = {.time_to_first_token = duration_of(objectives, "ttft_ms", 1e3),
                              .time_per_output_token = duration_of(objectives, "tpot_ms", 1e3),
                              .end_to_end = duration_of(objectives, "e2el_ms", 1e3)};
  request_class.ignore_eos = fields.boolean("ignore_eos");
  request_class.max_tokens = static_cast<std::uint32_t>(fields.number("max_tokens", UINT32_MAX));
  if (fields.has("asked_tokens"))
    request_class.asked_tokens = static_cast<std::uint32_t>(fields.number("asked_tokens", UINT32_MAX));
  return request_class;
}

ServerSample sample_of(const json& value, const std::string& where) {
  const JsonFields fields(value, where);
  return {.time = duration_of(fields, "time_s", 1),
          .num_running = fields.real("running"),
          .num_waiting = fields.real("waiting"),
          .pages_used = fields.real("pages_used"),
          .pages_total = fields.real("pages_total"),
          .batch_tokens = fields.real("batch_tokens"),
          .generation_tokens = fields.real("generation_tokens")};
}

std::string element(const std::string& file, const char* list, std::size_t index) {
  return file + ": " + list + "[" + std::to_string(index) + "]";
}

}  // namespace

std::string results_json(const RunResult& result, const Summary& summary) {
  ordered_json out;
  out["format"] = kFormat;
  out["name"] = result.name;
  out["simulated"] = result.is_simulated;
  out["duration"] = in_seconds(summary.window);
  out["request_rate"] = result.offered_rate;
  put_measures(out, summary.total);
  out["run_duration_s"] = in_seconds(result.duration);
  out["measured_from_s"] = in_seconds(result.measured_from);
  out["measured_until_s"] = in_seconds(result.measured_until);
  out["beyond_honest_rate"] = result.is_beyond_honest_rate;
  out["warnings"] = result.warnings;
  out["settings"] = ordered_json::array();
  for (const auto& [name, value] : result.settings)
    out["settings"].push_back(ordered_json::array({name, value}));
  out["classes"] = ordered_json::array();
  for (std::size_t i = 0; i < result.classes.size(); ++i)
    out["classes"].push_back(class_json(result.classes[i], summary.classes.at(i)));
  out["samples"] = ordered_json::array();
  for (const auto& sample : result.samples) out["samples"].push_back(sample_json(sample));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

RunResult parse_results_json(std::string_view text, const std::string& file) {
  const auto parsed =
      is_nested_deeper(text) ? json(json::value_t::discarded) : json::parse(text, nullptr, false);
  if (parsed.is_discarded()) throw std::runtime_error(file + ": this is no JSON");
  const JsonFields fields(parsed, file);
  if (const auto format = fields.text("format"); format != kFormat)
    throw std::runtime_error(file + ": expected format '" + kFormat + "', got '" + format.substr(0, 40) +
                             "'");
  RunResult result;
  result.name = fields.text("name");
  result.is_simulated = fields.boolean("simulated");
  result.settings = settings_of(fields);
  result.offered_rate = fields.real("request_rate");
  result.duration = duration_of(fields, "run_duration_s", 1);
  result.measured_from = duration_of(fields, "measured_from_s", 1);
  result.measured_until = duration_of(fields, "measured_until_s", 1);
  result.is_beyond_honest_rate = fields.boolean("beyond_honest_rate");
  for (const auto& warning : fields.array("warnings")) {
    if (!warning.is_string()) throw std::runtime_error(file + ": 'warnings': expected texts");
    result.warnings.push_back(warning.get<std::string>());
  }
  const auto& classes = fields.array("classes");
  for (std::size_t i = 0; i < classes.size(); ++i)
    result.classes.push_back(class_of(classes[i], element(file, "classes", i)));
  const auto& samples = fields.array("samples");
  for (std::size_t i = 0; i < samples.size(); ++i)
    result.samples.push_back(sample_of(samples[i], element(file, "samples", i)));
  return result;
}

}  // namespace troupe::loadgen
