// SPDX-License-Identifier: Apache-2.0
#include "gpu/model_directory.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "gpu/json_file.hpp"
#include "gpu/weights.hpp"

namespace troupe {
namespace {

// Everything that is read from a model directory; whatever else lies there,
// code above all, is never opened.
constexpr std::array kReadFiles = {
    "config.json",           "generation_config.json",       "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json",      "chat_template.jinja",
    "model.safetensors",     "model.safetensors.index.json",
};

void add_file(ModelDirectory& directory, const std::string& name) {
  std::error_code failure;
  const auto size = std::filesystem::file_size(directory.path / name, failure);
  if (!failure) directory.files.push_back({name, size});
}

// The name alone, so that it is shown even where the rest is refused.
std::string read_architecture_name(const std::filesystem::path& path) {
  const auto document = read_json_file(path);
  if (!document.is_object()) return "";
  const auto names = document.find("architectures");
  if (names == document.end() || !names->is_array() || names->empty() || !names->front().is_string()) {
    return "";
  }
  return names->front().get<std::string>().substr(0, 128);
}

void count_weights(ModelDirectory& directory, const WeightStore& store) {
  for (const auto& file : store.files()) {
    directory.weight_file_bytes += file->size_bytes();
    const std::string name = file->path().filename().string();
    if (name != "model.safetensors") add_file(directory, name);
  }
  for (const auto& [name, tensor] : store.tensors()) {
    std::uint64_t elements = 1;  // no overflow: checked when the file was read
    for (const auto dimension : tensor.entry->shape) elements *= dimension;
    ElementTypeCount& count = directory.element_types[tensor.entry->element_type];
    ++count.num_tensors;
    count.num_elements += elements;
    count.size_bytes += tensor.entry->size_bytes;
    directory.num_parameters += elements;
  }
}

}  // namespace

ModelDirectory inspect_model_directory(const std::filesystem::path& path, const HostModelSettings& settings) {
  ModelDirectory directory;
  directory.path = path;
  try {
    if (!std::filesystem::is_directory(path)) {
      throw std::runtime_error(path.string() + ": is not a directory");
    }
    for (const char* name : kReadFiles) add_file(directory, name);
    directory.architecture = read_architecture_name(path / "config.json");
    directory.config = load_model_config(path);
    count_weights(directory, WeightStore(path));
    const HostModelPlan plan = plan_host_model(path, settings);
    directory.compute_type = plan.compute_type;
    directory.memory = plan.memory;
    directory.kv_bytes_per_token = plan.memory.request.page_bytes / plan.memory.request.page_size;
  } catch (const std::exception& error) {
    directory.unsupported = error.what();
  }
  return directory;
}

}  // namespace troupe
