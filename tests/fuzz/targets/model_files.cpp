// SPDX-License-Identifier: Apache-2.0
// Files of a stranger's model directory beside those of text/: the header of
// safetensors, config.json and generation_config.json.
#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gpu/model/model_config.hpp"
#include "gpu/model/safetensors.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/config_checks.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::fuzz {
namespace {

void check_entries(const std::vector<SafetensorsEntry>& entries, std::size_t file_bytes) {
  std::uint64_t num_bytes = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsEntry& entry = entries[i];
    require(i == 0 || entries[i - 1].name < entry.name, "tensors are not in the order of their names");
    require(entry.begin >= 8 && entry.begin <= file_bytes && entry.size_bytes <= file_bytes - entry.begin,
            "a tensor is not inside the file");
    if (entry.type) {
      std::uint64_t size = size_of(*entry.type);
      for (const std::uint64_t dimension : entry.shape) size *= dimension;
      require(size == entry.size_bytes, "a tensor has other bytes than its shape needs");
    }
    num_bytes += entry.size_bytes;
  }
  require(num_bytes <= file_bytes, "tensors share bytes");
}

}  // namespace

void fuzz_safetensors(std::string_view bytes) {
  try {
    check_entries(parse_safetensors(std::as_bytes(std::span(bytes))), bytes.size());
  } catch (const std::runtime_error&) {
  }
}

// config.json and, behind a zero byte, generation_config.json.
void fuzz_model_config(std::string_view bytes) {
  static const TemporaryDirectory directory;
  const auto end = std::min(bytes.find('\0'), bytes.size());
  directory.write("config.json", bytes.substr(0, end));
  const auto generation = directory.path() / "generation_config.json";
  std::filesystem::remove(generation);
  if (end < bytes.size()) directory.write("generation_config.json", bytes.substr(end + 1));
  try {
    check_config(load_model_config(directory.path()));
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with(directory.path().string()), "a refusal names no file");
  }
  try {
    check_defaults(load_generation_defaults(directory.path()));
  } catch (const std::runtime_error&) {
  }
}

}  // namespace troupe::fuzz
