// SPDX-License-Identifier: Apache-2.0
// The refusal of a request that finds the queue full, in the words of a client: one sentence for all cores.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

inline std::string queue_full_message(std::uint64_t num_waiting) {
  return "The server has " + std::to_string(num_waiting) +
         " requests waiting, which is its limit; try again later.";
}

}  // namespace troupe
