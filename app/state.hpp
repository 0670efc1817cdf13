// SPDX-License-Identifier: Apache-2.0
// The state directory that the options ask for.
#pragma once

#include <memory>

#include "app/options/options.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// Null if nothing is to be kept, or nothing can be in the default directory: then
// a warning says why, and the server does without. If the directory was named, throws
// ConfigurationError where it can't be used or a later troupe has written to it, and
// std::runtime_error where another process has it, which may end.
std::shared_ptr<const StateDirectory> open_state_directory(const Options& options);

// The options with that directory in the place of the one that they ask for, for all that knows it by its
// path. Null: none.
Options with_opened_directory(Options options, const StateDirectory* directory);

}  // namespace troupe
