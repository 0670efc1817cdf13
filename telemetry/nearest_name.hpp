// SPDX-License-Identifier: Apache-2.0
// "Did you mean …?" for messages about unknown names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The known name nearest to `name` by edit distance; empty if none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace troupe
