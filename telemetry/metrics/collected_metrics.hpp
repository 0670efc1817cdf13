// SPDX-License-Identifier: Apache-2.0
// The values of all metrics at one time, before they are written in one format or the
// other: prometheus-cpp's families, and beside them what its types can't hold.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "telemetry/metrics/exponential_histogram.hpp"

namespace prometheus {
struct MetricFamily;
}

namespace troupe {

struct CollectedMetrics {
  std::vector<prometheus::MetricFamily> families;
  // By the name of a family, which then has one histogram.
  std::map<std::string, NativeHistogram, std::less<>> native;
};

}  // namespace troupe
