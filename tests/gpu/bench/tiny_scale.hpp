// SPDX-License-Identifier: Apache-2.0
// The benchmark of networks at a scale at which a test can run all of it.
#pragma once

#include "bench/networks/network_bench.hpp"

namespace troupe::bench {

inline NetworkScale tiny_scale() {
  return {.num_slots = 4,
          .context = 40,
          .steps = 3,
          .long_decodes = {{1, 80}},
          .max_batch_tokens = 80,
          .history = 64,
          .new_tokens = 5,
          .num_host_pages = 16,
          .repeats = 1};
}

}  // namespace troupe::bench
