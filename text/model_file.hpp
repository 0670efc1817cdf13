// SPDX-License-Identifier: Apache-2.0
// Reads the small text files of a model directory. Errors name the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace troupe {

// nullopt where there is no such file; throws std::runtime_error where it can't
// be read or is larger than allowed.
std::optional<std::string> read_model_file(const std::filesystem::path& path, std::size_t max_bytes);

// Throws std::runtime_error where the text is not JSON or nested too deeply.
nlohmann::json parse_model_json(const std::filesystem::path& path, const std::string& text);

}  // namespace troupe
