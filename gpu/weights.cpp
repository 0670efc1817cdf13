// SPDX-License-Identifier: Apache-2.0
#include "gpu/weights.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpu/json_file.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxShards = 1000;

// A shard is a plain file name in the model's own directory.
bool is_shard_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 128 && name.front() != '.' && name.ends_with(".safetensors") &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

std::string shown(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string expected(const WeightSpec& spec) {
  const std::string columns = std::to_string(spec.columns);
  const std::string total =
      spec.rows == 1 ? "[" + columns + "]" : "[" + std::to_string(spec.rows) + ", " + columns + "]";
  return "expected " + total +
         (spec.sources.size() > 1 ? " together from " + std::to_string(spec.sources.size()) + " tensors"
                                  : "");
}

}  // namespace

WeightStore::WeightStore(const std::filesystem::path& model_dir) : model_dir_(model_dir) {
  const auto single = model_dir / "model.safetensors";
  const auto index = model_dir / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    add_single(single);
  } else if (std::filesystem::exists(index)) {
    add_shards(model_dir, index);
  } else {
    throw std::runtime_error(single.string() + ": is missing, and so is model.safetensors.index.json");
  }
}

WeightView WeightStore::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw std::runtime_error(model_dir_.string() + ": the weights have no tensor \"" + std::string(name) +
                             "\"");
  }
  const auto& [file, entry] = found->second;
  if (!entry->type || *entry->type == DataType::kI32) {
    throw std::runtime_error(file->path().string() + ": tensor \"" + std::string(name) + "\" has dtype " +
                             entry->element_type + ", expected F32, F16 or BF16");
  }
  return {.type = *entry->type, .shape = entry->shape, .bytes = file->bytes_of(*entry)};
}

void WeightStore::check_unchanged() const {
  for (const auto& file : files_) {
    if (!file->is_unchanged()) {
      throw std::runtime_error(file->path().string() + ": was changed while it was being loaded");
    }
  }
}

void WeightStore::add_single(const std::filesystem::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const auto& entry : files_.back()->entries()) {
    tensors_[entry.name] = {files_.back().get(), &entry};
  }
}

void WeightStore::add_shards(const std::filesystem::path& model_dir,
                             const std::filesystem::path& index_path) {
  const auto refuse = [&](const std::string& reason) -> void {
    throw std::runtime_error(index_path.string() + ": " + reason);
  };
  const auto index = read_json_file(index_path, kMaxIndexBytes);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) refuse("has no object \"weight_map\"");
  if (map->size() > SafetensorsLimits::kMaxTensors) refuse("names more than 200000 tensors");

  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_shard_name(shard.get_ref<const std::string&>())) {
      refuse("gives tensor \"" + tensor.substr(0, 64) + "\" a file that is no plain *.safetensors name");
    }
    const auto& name = shard.get_ref<const std::string&>();
    auto opened = shards.find(name);
    if (opened == shards.end()) {
      if (shards.size() == kMaxShards) refuse("names more than 1000 files");
      files_.push_back(std::make_unique<SafetensorsFile>(model_dir / name));
      opened = shards.emplace(name, files_.back().get()).first;
    }
    const auto* entry = opened->second->find(tensor);
    if (entry == nullptr) {
      refuse("puts tensor \"" + tensor.substr(0, 64) + "\" in " + name + ", which does not have it");
    }
    tensors_[tensor] = {opened->second, entry};
  }
}

std::vector<WeightView> find_sources(const WeightStore& store, const WeightSpec& spec) {
  const bool is_vector = spec.rows == 1;
  std::vector<WeightView> views;
  std::uint64_t stacked = 0;
  for (const auto& source : spec.sources) {
    views.push_back(store.find(source));
    const auto& shape = views.back().shape;
    const bool fits = is_vector ? shape.size() == 1 : shape.size() == 2 && shape[1] == spec.columns;
    // No overflow: a shape's product was checked against the file's size.
    stacked += fits ? shape[0] : 0;
    if (!fits || stacked > (is_vector ? spec.columns : spec.rows)) {
      throw std::runtime_error("tensor \"" + source + "\" has shape " + shown(shape) +
                               ", which does not fit config.json: " + expected(spec));
    }
  }
  if (stacked != (is_vector ? spec.columns : spec.rows)) {
    throw std::runtime_error("tensor \"" + spec.sources.back() + "\" has shape " + shown(views.back().shape) +
                             ", which does not fit config.json: " + expected(spec));
  }
  return views;
}

void check_weights(const WeightStore& store, const Network& network) {
  for (const auto& spec : network.weights()) find_sources(store, spec);
}

}  // namespace troupe
