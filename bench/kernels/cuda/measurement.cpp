// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/cuda/measurement.hpp"

#include <cmath>
#include <ostream>

#include <nlohmann/json.hpp>

namespace troupe::bench {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::optional<Goal>& goal) {
  if (!goal) return nullptr;
  Json json = Json::object();
  if (goal->at_least) json["at_least"] = *goal->at_least;
  if (goal->at_most) json["at_most"] = *goal->at_most;
  return json;
}

}  // namespace

bool Goal::is_met_by(double value) const {
  // A value that is not a number meets none.
  return (!at_least || value >= *at_least) && (!at_most || value <= *at_most);
}

void Recorder::device(const std::vector<std::pair<std::string, std::string>>& properties) {
  Json json = {{"kind", "device"}, {"tiny", is_tiny_}};
  for (const auto& [name, value] : properties) json[name] = value;
  lines_ << json.dump() << std::endl;
}

void Recorder::add(const Measurement& measurement) {
  if (!std::isfinite(measurement.value)) {  // of a limit that was not measured
    return add_not_run(measurement.id, "its value is no number: " + std::to_string(measurement.value));
  }
  Json details = Json::object();
  for (const auto& [name, value] : measurement.details) details[name] = value;
  Json json = {{"kind", "measurement"},
               {"tiny", is_tiny_},
               {"id", measurement.id},
               {"title", measurement.title},
               {"value", measurement.value},
               {"unit", measurement.unit},
               {"goal", json_of(measurement.goal)},
               {"met", nullptr},
               {"details", std::move(details)}};
  if (measurement.goal) json["met"] = measurement.goal->is_met_by(measurement.value);
  lines_ << json.dump() << std::endl;  // at once: what was measured stays if we are stopped
}

void Recorder::add_not_run(const std::string& id, const std::string& reason) {
  const Json json = {{"kind", "not_run"}, {"tiny", is_tiny_}, {"id", id}, {"reason", reason}};
  lines_ << json.dump() << std::endl;
}

}  // namespace troupe::bench
