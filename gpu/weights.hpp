// SPDX-License-Identifier: Apache-2.0
// The tensors of a model directory by name, mapped from model.safetensors or
// from the shards that model.safetensors.index.json names. Devices copy and
// pack what they need at load and drop the store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/safetensors.hpp"

namespace troupe {

// Elements as they lie in the file: row-major, not necessarily aligned. Valid
// as long as the store.
struct WeightView {
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

class WeightStore {
 public:
  // Throws std::runtime_error that names the file and what is wrong with it.
  explicit WeightStore(const std::filesystem::path& model_dir);

  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  // Throws std::runtime_error if there is no such tensor or its element type
  // is none that networks use.
  WeightView find(std::string_view name) const;

  struct Tensor {
    const SafetensorsFile* file = nullptr;
    const SafetensorsEntry* entry = nullptr;
  };
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }

  // Throws std::runtime_error naming a file that was changed since it was
  // opened; call it before reading a view and after the last one was read.
  void check_unchanged() const;

 private:
  void add_single(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& model_dir, const std::filesystem::path& index_path);

  std::filesystem::path model_dir_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// The tensors that make up one weight of a network, in stacking order, their
// shapes checked: a matrix [rows, columns] is stacked by rows, a vector (one
// row) is the concatenation of its sources. Throws std::runtime_error.
std::vector<WeightView> find_sources(const WeightStore& store, const WeightSpec& spec);

// Looks up every weight of the network, so that a directory that lacks one is
// refused before anything is allocated.
void check_weights(const WeightStore& store, const Network& network);

}  // namespace troupe
