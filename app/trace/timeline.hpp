// SPDX-License-Identifier: Apache-2.0
// A run as Chrome trace events, the format that Perfetto (ui.perfetto.dev) and
// chrome://tracing open: one track a worker with its iterations, requests packed
// into lanes with their phases inside, arrows from requests to the iterations
// they took part in, and counters.
#pragma once

#include <cstddef>
#include <string>

#include "app/trace/traced_request.hpp"

namespace troupe {

struct Timeline {
  std::string json;
  std::size_t num_lanes = 0;  // requests at once, at most
  std::size_t num_workers = 0;
  std::size_t num_arrows = 0;
  std::size_t num_arrows_left_out = 0;  // beyond a bound that viewers can bear
};

Timeline make_timeline(const TracedRun& run);

}  // namespace troupe
