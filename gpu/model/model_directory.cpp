// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_directory.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "gpu/model/gguf_file.hpp"
#include "gpu/model/json_file.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {
namespace {

// Everything that is read from a model directory; whatever else lies there,
// code above all, is never opened.
constexpr std::array kReadFiles = {
    "config.json",           "generation_config.json",       "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json",      "chat_template.jinja",
    "model.safetensors",     "model.safetensors.index.json", "modules.json",
    "1_Pooling/config.json", "sentence_bert_config.json",    "quantize_config.json",
};

void add_file(ModelDirectory& directory, const std::filesystem::path& path, const std::string& name) {
  std::error_code failure;
  const auto size = std::filesystem::file_size(path, failure);
  if (!failure) directory.files.push_back({name, size});
}

void add_files(ModelDirectory& directory) {
  if (directory.is_gguf) {
    for (const auto& part : gguf_parts(directory.path)) add_file(directory, part, part.filename().string());
    return;
  }
  for (const char* name : kReadFiles) add_file(directory, directory.path / name, name);
}

// The name alone, so that it is shown even where the rest is refused.
std::string read_architecture_name(const ModelDirectory& directory) {
  if (directory.is_gguf) {
    const GgufFile file(directory.path);
    const std::string* name = file.find_text("general.architecture");
    if (name == nullptr) return "";
    const bool is_plain = name->size() <= 128 && std::all_of(name->begin(), name->end(), [](char letter) {
                            return letter > ' ' && letter < '\x7F';
                          });
    return is_plain ? *name : shown_gguf_name(*name);
  }
  const auto document = read_json_file(directory.path / "config.json");
  if (!document.is_object()) return "";
  const auto names = document.find("architectures");
  if (names == document.end() || !names->is_array() || names->empty() || !names->front().is_string()) {
    return "";
  }
  return names->front().get<std::string>().substr(0, 128);
}

void count_weights(ModelDirectory& directory, const WeightStore& store) {
  for (const auto& file : store.files()) {
    directory.weight_file_bytes += file.size_bytes;
    const std::string name = file.path.filename().string();
    if (!directory.is_gguf && name != "model.safetensors") add_file(directory, file.path, name);
  }
  for (const auto& [name, tensor] : store.tensors()) {
    std::uint64_t elements = 1;  // no overflow: checked when the file was read
    for (const auto dimension : tensor.view.shape) elements *= dimension;
    ElementTypeCount& count = directory.element_types[tensor.element_type];
    ++count.num_tensors;
    count.num_elements += elements;
    count.size_bytes += tensor.view.bytes.size() + tensor.view.scales.size();
    directory.num_parameters += elements;
  }
}

// In the experts that a token does not choose.
std::uint64_t count_idle_parameters(const ModelConfig& config) {
  if (!config.experts) return 0;
  std::uint64_t count = 0;
  for (const WeightSpec& spec : make_network(config)->weights())
    if (spec.kind == MatrixKind::kExperts) count += std::uint64_t{spec.rows} * spec.columns;
  return count / config.experts->num_experts * (config.experts->num_experts - config.experts->num_chosen);
}

}  // namespace

ModelDirectory inspect_model_directory(const std::filesystem::path& path, const PlanModel& plan_model) {
  ModelDirectory directory;
  directory.path = path;
  try {
    directory.is_gguf = is_gguf_path(path);
    if (!directory.is_gguf && !std::filesystem::is_directory(path)) {
      throw std::runtime_error(path.string() + ": is neither a directory nor a GGUF file");
    }
    add_files(directory);
    directory.architecture = read_architecture_name(directory);
    if (directory.is_gguf) count_weights(directory, WeightStore(path));  // also where the rest is refused
    directory.config = load_model_config(path);
    if (!directory.is_gguf) count_weights(directory, WeightStore(path));
    directory.num_active_parameters = directory.num_parameters - count_idle_parameters(*directory.config);
    const ModelPlan plan = plan_model(path);
    directory.compute_type = plan.compute_type;
    directory.weight_formats = plan.weight_formats;
    directory.memory = plan.memory;
    directory.kv_bytes_per_token = plan.memory.request.page_bytes / plan.memory.request.page_size;
  } catch (const std::exception& error) {
    directory.unsupported = error.what();
  }
  return directory;
}

}  // namespace troupe
