// SPDX-License-Identifier: Apache-2.0
// The state directory that the options ask for.
#pragma once

#include <memory>

#include "app/options.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// Null if nothing is to be kept, or nothing can be: then a warning says why, and
// the server does without.
std::shared_ptr<const StateDirectory> open_state_directory(const Options& options);

}  // namespace troupe
