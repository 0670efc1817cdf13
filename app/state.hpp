// SPDX-License-Identifier: Apache-2.0
// The state directory that the options ask for.
#pragma once

#include <memory>

#include "app/options/options.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// Null if nothing is to be kept, or nothing can be in the default directory: then
// a warning says why, and the server does without. Throws ConfigurationError if
// the directory was named and can't be used, or a later troupe has written to it.
std::shared_ptr<const StateDirectory> open_state_directory(const Options& options);

}  // namespace troupe
