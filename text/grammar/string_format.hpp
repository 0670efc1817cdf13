// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// A pattern whose texts all have a format of JSON schema ("date", "uuid"); not every text of the format
// has to match. nullopt: the format is not known.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace troupe
