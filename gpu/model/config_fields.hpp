// SPDX-License-Identifier: Apache-2.0
// An object of one of a model's JSON files, read field by field with checks of type
// and range. An error names the file, the field and the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"

namespace troupe {

// Upper limits of values in a file.
inline constexpr std::uint32_t kMaxWidth = 1U << 20;
inline constexpr std::uint32_t kMaxLayers = 1024;
inline constexpr std::uint32_t kMaxHeads = 4096;
inline constexpr std::uint32_t kMaxVocabulary = 1U << 22;
inline constexpr std::uint32_t kMaxContext = 1U << 24;
inline constexpr double kMaxParameters = 1e13;

// null counts as absent, as Hugging Face writes it. All methods but shown() throw
// std::runtime_error.
class ConfigFields {
 public:
  // The object outlives it.
  ConfigFields(const nlohmann::json& object, std::string file);

  const std::string& file() const { return file_; }
  [[noreturn]] void refuse(const std::string& reason) const;

  const nlohmann::json* find(const char* name) const;  // null: absent
  bool has(const char* name) const;                    // be it null
  // From 1 to max.
  std::optional<std::uint32_t> count(const char* name, std::uint32_t max) const;
  std::uint32_t required_count(const char* name, std::uint32_t max) const;
  std::optional<float> number(const char* name, float min, float max) const;
  std::optional<double> exact_number(const char* name, double min, double max) const;
  bool flag(const char* name, bool otherwise) const;
  std::optional<std::string> text(const char* name) const;
  Activation activation(const char* name, const char* otherwise) const;
  DataType weight_type() const;  // of "dtype" or "torch_dtype"

  // At most 48 bytes.
  static std::string shown(const nlohmann::json& value);

 private:
  const nlohmann::json& object_;
  std::string file_;
};

}  // namespace troupe
