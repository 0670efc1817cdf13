// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/quantized/quantization_config.hpp"

#include <string>

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMaxBlock = 1U << 20;

// -1: one group of all inputs.
std::uint32_t read_group_size(const ConfigFields& fields) {
  const json* size = fields.find("group_size");
  if (size != nullptr && *size == -1) return 0;
  return fields.count("group_size", kMaxWidth).value_or(128);
}

void require_four_bits(const ConfigFields& fields) {
  const json* bits = fields.find("bits");
  if (bits == nullptr || *bits != 4)
    fields.refuse("quantization_config.bits is " +
                  (bits == nullptr ? std::string("missing") : ConfigFields::shown(*bits)) +
                  ", only 4 are supported");
}

void read_gptq(const ConfigFields& fields, QuantizationConfig& config) {
  require_four_bits(fields);
  config.group_size = read_group_size(fields);
  const std::string stored = fields.text("checkpoint_format").value_or("gptq");
  if (stored != "gptq" && stored != "gptq_v2")
    fields.refuse("quantization_config.checkpoint_format " + ConfigFields::shown(stored) +
                  " is not supported (gptq and gptq_v2 are)");
  config.added_zero = stored == "gptq" ? 1 : 0;
}

void read_awq(const ConfigFields& fields, QuantizationConfig& config) {
  require_four_bits(fields);
  config.group_size = read_group_size(fields);
  const std::string version = fields.text("version").value_or("gemm");
  if (version != "gemm" && version != "GEMM")
    fields.refuse("quantization_config.version " + ConfigFields::shown(version) +
                  " is not supported (gemm is)");
}

void read_fp8(const ConfigFields& fields, QuantizationConfig& config) {
  const json* size = fields.find("weight_block_size");
  if (size == nullptr) return;
  const auto is_size = [](const json& value) {
    return value.is_number_unsigned() && value > 0 && value <= kMaxBlock;
  };
  if (!size->is_array() || size->size() != 2 || !is_size((*size)[0]) || !is_size((*size)[1]))
    fields.refuse("quantization_config.weight_block_size is " + ConfigFields::shown(*size) +
                  ", expected two sizes of blocks");
  config.block_size = {(*size)[0].get<std::uint32_t>(), (*size)[1].get<std::uint32_t>()};
}

}  // namespace

QuantizationConfig read_quantization_config(const ConfigFields& config) {
  QuantizationConfig read;
  const json* object = config.find("quantization_config");
  if (object == nullptr) return read;
  if (!object->is_object()) config.refuse("quantization_config is no object");
  const ConfigFields fields(*object, config.file());
  const std::string method = fields.text("quant_method").value_or("");
  if (method == "mxfp4") {
    read.format = WeightFormat::kMxfp4;
  } else if (method == "fp8") {
    read.format = WeightFormat::kFp8;
    read_fp8(fields, read);
  } else if (method == "gptq") {
    read.format = WeightFormat::kGptq;
    read_gptq(fields, read);
  } else if (method == "awq") {
    read.format = WeightFormat::kAwq;
    read_awq(fields, read);
  } else {
    config.refuse("quantized weights (quantization_config) of quant_method " + ConfigFields::shown(method) +
                  " are not supported (fp8, gptq, awq and gpt-oss' mxfp4 are)");
  }
  return read;
}

}  // namespace troupe
