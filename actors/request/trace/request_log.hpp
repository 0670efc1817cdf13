// SPDX-License-Identifier: Apache-2.0
// One line of the log for a request that has ended.
#pragma once

#include "actors/request/trace/request_trace.hpp"

namespace troupe {

// A request that failed is a warning; one that ended well, was refused or
// cancelled is of level debug, or info if is_wanted. Ids, counts and times:
// nothing of what was asked or answered.
void log_request(const RequestTrace& trace, bool is_wanted);

}  // namespace troupe
