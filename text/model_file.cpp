// SPDX-License-Identifier: Apache-2.0
#include "text/model_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "telemetry/json_depth.hpp"

namespace troupe {

std::optional<std::string> read_model_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
  if (status.type() != std::filesystem::file_type::regular) {
    throw std::runtime_error(path.string() + ": not a regular file");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw std::runtime_error(path.string() + ": " + error.message());
  if (size > max_bytes) {
    throw std::runtime_error(path.string() + ": " + std::to_string(size) + " bytes, at most " +
                             std::to_string(max_bytes) + " are read");
  }
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw std::runtime_error(path.string() + ": cannot be read");
  }
  return text;
}

nlohmann::json parse_model_json(const std::filesystem::path& path, const std::string& text) {
  if (is_nested_deeper(text)) {
    throw std::runtime_error(path.string() + ": nested deeper than " + std::to_string(kMaxJsonDepth));
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path.string() + ": malformed or truncated JSON: " + error.what());
  }
}

}  // namespace troupe
