// SPDX-License-Identifier: Apache-2.0
// Metrics of this process from the kernel, under the names that all Prometheus
// clients use. Read from /proc when asked; a value that can't be read is left out.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace troupe {

std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace troupe
