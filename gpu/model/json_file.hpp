// SPDX-License-Identifier: Apache-2.0
// Reads one small JSON file of a model directory as hostile input: size and
// depth are bounded, a key may occur once in an object, numbers are finite.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace troupe {

// The whole of a regular file. Throws std::runtime_error "<path>: is missing",
// "… larger than …" and the like.
std::string read_small_file(const std::filesystem::path& path, std::size_t max_bytes);

// Throws std::runtime_error that names the file and what is wrong with it.
nlohmann::json read_json_file(const std::filesystem::path& path,
                              std::size_t max_bytes = std::size_t{16} << 20);

}  // namespace troupe
