// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/architecture_keys.hpp"

namespace troupe {

ArchitectureKeys::ArchitectureKeys(const GgufFile& file) : file_(file) {
  const std::string* name = file.find_text("general.architecture");
  if (name == nullptr) file.refuse("has no general.architecture");
  name_ = *name;
}

std::optional<std::uint64_t> ArchitectureKeys::count(const char* suffix) const {
  const GgufValue* value = file_.find_value(key(suffix));
  if (value == nullptr || value->as_array() == nullptr) return file_.find_unsigned(key(suffix));
  const GgufValue::Array& layers = *value->as_array();
  for (const GgufValue& layer : layers) {
    if (layer.as_unsigned() == nullptr || layers.front().as_unsigned() == nullptr ||
        *layer.as_unsigned() != *layers.front().as_unsigned()) {
      file_.refuse(key(suffix) + " differs between layers, which is not supported");
    }
  }
  if (layers.empty()) file_.refuse(key(suffix) + " is an empty array");
  return *layers.front().as_unsigned();
}

std::uint64_t ArchitectureKeys::required_count(const char* suffix) const {
  const auto value = count(suffix);
  if (!value) file_.refuse(key(suffix) + " is missing");
  return *value;
}

std::vector<std::uint64_t> ArchitectureKeys::layer_counts(const char* suffix) const {
  const GgufValue* value = file_.find_value(key(suffix));
  std::vector<std::uint64_t> counts;
  if (value == nullptr || value->as_array() == nullptr) return counts;
  const GgufValue::Array& layers = *value->as_array();
  if (layers.size() != required_count("block_count"))
    file_.refuse(key(suffix) + " has " + std::to_string(layers.size()) +
                 " entries, expected one for each layer");
  for (const GgufValue& layer : layers) {
    if (layer.as_unsigned() == nullptr) file_.refuse(key(suffix) + " has an entry that is no count");
    counts.push_back(*layer.as_unsigned());
  }
  return counts;
}

}  // namespace troupe
