// SPDX-License-Identifier: Apache-2.0
// The report of `troupe inspect` on a model directory or a GGUF file: what is there,
// what it needs, and one clear sentence if it cannot be served.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/memory_plan.hpp"
#include "gpu/model/model_config.hpp"

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
  bool is_gguf = false;               // path is a file
  std::vector<ModelFile> files;       // of those this program would read, the ones present
  std::string architecture;           // as the model names it, also if not supported
  std::optional<ModelConfig> config;  // empty if not supported
  std::uint64_t num_parameters = 0;
  std::uint64_t num_active_parameters = 0;  // of which a token meets so many: not those of experts it has not
  std::uint64_t weight_file_bytes = 0;
  std::map<std::string, ElementTypeCount> element_types;  // by the files' names: "BF16"
  std::optional<DataType> compute_type;                   // as the backend plans
  std::string weight_formats;                             // blocks of matrices; empty: none
  std::optional<MemoryPlan> memory;
  std::uint64_t kv_bytes_per_token = 0;
  std::string unsupported;  // why not; empty: it can be served
};

// A backend's plan of the model. Throws what keeps it from being served.
struct ModelPlan {
  DataType compute_type = DataType::kF32;
  std::string weight_formats = {};  // "Q4_K, Q6_K"
  MemoryPlan memory = {};
};
using PlanModel = std::function<ModelPlan(const std::filesystem::path& path)>;

// Never throws for what the model's files hold: problems are in `unsupported`.
ModelDirectory inspect_model_directory(const std::filesystem::path& path, const PlanModel& plan_model);

}  // namespace troupe
