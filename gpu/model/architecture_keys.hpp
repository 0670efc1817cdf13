// SPDX-License-Identifier: Apache-2.0
// Keys of a GGUF file that begin with its architecture: "llama.block_count".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/model/gguf_file.hpp"

namespace troupe {

// Methods throw std::runtime_error that names the file and the key: its value is of another type.
class ArchitectureKeys {
 public:
  // The file outlives it. Throws also if the file names no architecture.
  explicit ArchitectureKeys(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& name() const { return name_; }
  std::string key(const char* suffix) const { return name_ + "." + suffix; }
  bool has(const char* suffix) const { return file_.find_value(key(suffix)) != nullptr; }

  // One number, or an array of the same number for each layer.
  std::optional<std::uint64_t> count(const char* suffix) const;
  std::uint64_t required_count(const char* suffix) const;
  // Counts by layer; empty: the key's value is no array.
  std::vector<std::uint64_t> layer_counts(const char* suffix) const;
  std::optional<double> number(const char* suffix) const { return file_.find_number(key(suffix)); }
  std::optional<bool> flag(const char* suffix) const { return file_.find_bool(key(suffix)); }
  const std::string* text(const char* suffix) const { return file_.find_text(key(suffix)); }

 private:
  const GgufFile& file_;
  std::string name_;
};

}  // namespace troupe
