// SPDX-License-Identifier: Apache-2.0
// Chats by how long people think between two turns: what caches of KV are compared on.
#pragma once

#include <cmath>

#include "loadgen/workload/workload_settings.hpp"

namespace troupe::bench {

inline loadgen::DistributionSettings exponential(double mean_s) {
  loadgen::DistributionSettings settings = loadgen::fixed(mean_s);
  settings.kind = loadgen::DistributionSettings::Kind::kExponential;
  return settings;
}

// Median 20 s, sigma 1.5.
inline loadgen::DistributionSettings log_normal() {
  loadgen::DistributionSettings settings;
  settings.kind = loadgen::DistributionSettings::Kind::kLogNormal;
  settings.median = 20;
  settings.sigma = 1.5;
  return settings;
}

// Exponent 1.5, mean 60 s.
inline loadgen::DistributionSettings pareto() {
  loadgen::DistributionSettings settings;
  settings.kind = loadgen::DistributionSettings::Kind::kQuantiles;
  for (int i = 0; i <= 1000; ++i) settings.quantiles.push_back(20 * std::pow(1 - i / 1000.5, -1 / 1.5));
  return settings;
}

// One is begun a second, on average.
inline loadgen::WorkloadSettings chats(const loadgen::DistributionSettings& think_time_s, double seconds) {
  loadgen::WorkloadSettings workload = loadgen::preset("sharegpt-like");
  workload.arrivals.rate = 1;
  workload.max_conversations = 0;
  workload.duration_s = seconds;
  workload.classes.front().think_time_s = think_time_s;
  return workload;
}

}  // namespace troupe::bench
