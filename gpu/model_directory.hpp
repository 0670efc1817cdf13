// SPDX-License-Identifier: Apache-2.0
// What `troupe inspect` shows of a model directory: what is there, what it
// needs, and one clear sentence if it cannot be served.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/host/host_model.hpp"
#include "gpu/model_config.hpp"

namespace troupe {

struct ModelFile {
  std::string name;
  std::uint64_t size_bytes = 0;
};

struct ElementTypeCount {
  std::uint64_t num_tensors = 0;
  std::uint64_t num_elements = 0;
  std::uint64_t size_bytes = 0;
};

struct ModelDirectory {
  std::filesystem::path path;
  std::vector<ModelFile> files;       // of those this program would read, the ones present
  std::string architecture;           // as config.json names it, also if not supported
  std::optional<ModelConfig> config;  // empty if not supported
  std::uint64_t num_parameters = 0;
  std::uint64_t weight_file_bytes = 0;
  std::map<std::string, ElementTypeCount> element_types;  // by the files' names: "BF16"
  std::optional<DataType> compute_type;                   // the host backend's choice
  std::optional<MemoryPlan> memory;                       // with the settings given
  std::uint64_t kv_bytes_per_token = 0;
  std::string unsupported;  // why not; empty: it can be served
};

// Never throws for what the directory holds: problems are in `unsupported`.
ModelDirectory inspect_model_directory(const std::filesystem::path& path, const HostModelSettings& settings);

}  // namespace troupe
