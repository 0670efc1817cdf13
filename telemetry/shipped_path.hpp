// SPDX-License-Identifier: Apache-2.0
// Finds what comes with the programs (the demo model, its questions), so that
// they can be started from any directory: where it lies below the current one,
// that is it; else it is beside the program or in a folder above it, or in share/troupe
// of one, as it is installed.
#pragma once

#include <filesystem>

namespace troupe {

// The first of start and the folders above it that has `relative`, with `relative`
// behind it; empty: none has.
std::filesystem::path find_above(const std::filesystem::path& start, const std::filesystem::path& relative);

// `relative` itself if it is below the current directory, or is nowhere.
std::filesystem::path shipped_path(const std::filesystem::path& relative);

// The same, but not where the process was started, which anybody may have written to. Empty: it is not there.
std::filesystem::path shipped_beside_program(const std::filesystem::path& relative);

}  // namespace troupe
