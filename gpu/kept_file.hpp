// SPDX-License-Identifier: Apache-2.0
// A small file in which one start keeps what it measured for the next: read as
// hostile input, replaced in one step. Its directory is open already, so a user
// with rights above it can't lead us elsewhere. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace troupe {

// nullopt: there is none. Throws std::runtime_error if it is no regular file (links are
// not followed), has more than most_bytes, or can't be read.
std::optional<std::string> read_kept_file(int directory, const std::string& name, std::size_t most_bytes);

// There is the old file or the new one at any moment. Throws std::runtime_error.
void replace_kept_file(int directory, const std::string& name, const std::string& text);

}  // namespace troupe
