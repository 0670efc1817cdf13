// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/config_fields.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace troupe {

using nlohmann::json;

ConfigFields::ConfigFields(const json& object, std::string file) : object_(object), file_(std::move(file)) {
  if (!object_.is_object()) refuse("is not a JSON object");
}

void ConfigFields::refuse(const std::string& reason) const {
  throw std::runtime_error(file_ + ": " + reason);
}

const json* ConfigFields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::has(const char* name) const { return object_.contains(name); }

std::optional<std::uint32_t> ConfigFields::count(const char* name, std::uint32_t max) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > max) {
    refuse(std::string(name) + " is " + shown(*value) + ", expected an integer from 1 to " +
           std::to_string(max));
  }
  return value->get<std::uint32_t>();
}

std::uint32_t ConfigFields::required_count(const char* name, std::uint32_t max) const {
  const auto value = count(name, max);
  if (!value) refuse(std::string(name) + " is missing");
  return *value;
}

std::optional<float> ConfigFields::number(const char* name, float min, float max) const {
  const auto value = exact_number(name, min, max);
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

std::optional<double> ConfigFields::exact_number(const char* name, double min, double max) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max)) {
    refuse(std::string(name) + " is " + shown(*value) + ", expected a number from " + std::to_string(min) +
           " to " + std::to_string(max));
  }
  return number;
}

bool ConfigFields::flag(const char* name, bool otherwise) const {
  const json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    refuse(std::string(name) + " is " + shown(*value) + ", expected true or false");
  }
  return value->get<bool>();
}

std::optional<std::string> ConfigFields::text(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse(std::string(name) + " is " + shown(*value) + ", expected a string");
  }
  return value->get<std::string>();
}

Activation ConfigFields::activation(const char* name, const char* otherwise) const {
  const auto stated = text(name).value_or(otherwise);
  if (stated == "gelu") return Activation::kGelu;
  if (stated == "gelu_new" || stated == "gelu_pytorch_tanh" || stated == "gelu_fast")
    return Activation::kGeluTanh;
  if (stated == "relu") return Activation::kRelu;
  refuse(std::string(name) + " \"" + stated.substr(0, 48) +
         "\" is not supported (gelu, gelu_new and relu are)");
}

DataType ConfigFields::weight_type() const {
  auto type = text("dtype");
  if (!type) type = text("torch_dtype");
  if (!type || *type == "float32") return DataType::kF32;
  if (*type == "bfloat16") return DataType::kBF16;
  if (*type == "float16") return DataType::kF16;
  refuse("torch_dtype \"" + type->substr(0, 48) + "\" is not supported (float32, float16 and bfloat16 are)");
}

std::string ConfigFields::shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 48 ? text : text.substr(0, 45) + "...";
}

}  // namespace troupe
