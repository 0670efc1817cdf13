// SPDX-License-Identifier: Apache-2.0
// Checks of options that take only some texts. Each returns what was expected,
// or nothing if the text is fine. An empty text is fine where the option may be
// empty.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

std::optional<std::string> wrong_address(std::string_view text);  // to listen on
std::optional<std::string> wrong_hosts(std::string_view text);    // comma separated
std::optional<std::string> wrong_origins(std::string_view text);  // comma separated
std::optional<std::string> wrong_api_key(std::string_view text);  // never repeats it
std::optional<std::string> wrong_model_name(std::string_view text);
std::optional<std::string> wrong_cpu_list(std::string_view text);
std::optional<std::string> wrong_model_aliases(std::string_view text);

// Blanks around the parts are dropped, and so are empty parts.
std::vector<std::string> split_at_commas(std::string_view text);

}  // namespace troupe
