// SPDX-License-Identifier: Apache-2.0
// From what the client saw of one request to what is kept of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "loadgen/client/dialogue.hpp"
#include "loadgen/client/http/client_connection.hpp"
#include "loadgen/result/request_record.hpp"

namespace troupe::loadgen {

// X-Request-Id that servers get.
std::string request_id(std::uint64_t conversation, std::uint32_t turn);

// Record of the dialogue's present turn. A request that was never sent has the time of
// its end as `sent`.
RequestRecord make_record(const Dialogue& dialogue, std::chrono::nanoseconds intended,
                          const Completion& completion, SteadyTime begin);

// How late the request was begun by us; what was never begun is late until its end.
std::chrono::nanoseconds start_delay(std::chrono::nanoseconds intended, const Completion& completion,
                                     SteadyTime begin);

}  // namespace troupe::loadgen
