// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/options/options.hpp"

namespace troupe {

// Level and format that the options ask for. Any thread, at any time.
void configure_logging_from(const Options& options);

}  // namespace troupe
