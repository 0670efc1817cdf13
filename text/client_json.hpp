// SPDX-License-Identifier: Apache-2.0
// JSON of a client as a value for chat templates: all its strings and keys are
// the client's, and it is bounded, since templates look keys up one by one.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "text/jinja/template_value.hpp"

namespace troupe {

inline constexpr std::size_t kMaxClientJsonDepth = 32;
inline constexpr std::size_t kMaxClientJsonKeys = 512;  // of one object

// nullopt: it is not JSON, or exceeds a bound.
std::optional<TemplateValue> parse_client_json(std::string_view text);

}  // namespace troupe
