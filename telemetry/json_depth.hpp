// SPDX-License-Identifier: Apache-2.0
// How deep a JSON text nests, looked at before it is parsed: what writes a parsed
// value, copies it or walks through it does so by recursion, and a text of a stranger
// that is nested a hundred thousand times ends the process.
#pragma once

#include <cstddef>
#include <string_view>

namespace troupe {

// Enough for any file or answer that we read.
inline constexpr std::size_t kMaxJsonDepth = 64;

// The text need not be JSON.
bool is_nested_deeper(std::string_view json, std::size_t max_depth = kMaxJsonDepth);

}  // namespace troupe
