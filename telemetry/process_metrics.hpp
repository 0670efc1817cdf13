// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of this process, under the names that all Prometheus
// clients use. Read from /proc when asked; what can't be read is left out.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace troupe {

std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace troupe
