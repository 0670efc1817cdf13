// SPDX-License-Identifier: Apache-2.0
// The Retry-After header: seconds, or a date of HTTP's preferred form.
#pragma once

#include <chrono>
#include <string_view>

namespace troupe {

// now: wall time, for dates. 0: absent, malformed, or a date that has passed.
std::chrono::seconds parse_retry_after(std::string_view header, std::chrono::system_clock::time_point now);

}  // namespace troupe
