// SPDX-License-Identifier: Apache-2.0
// Matrices of Hugging Face directories that lie in several tensors: FP8, GPTQ and AWQ.
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/model/json_file.hpp"
#include "gpu/model/quantized/four_bit_tensor.hpp"
#include "gpu/model/quantized/fp8_tensor.hpp"
#include "gpu/model/quantized/quantization_config.hpp"
#include "gpu/model/weights.hpp"

namespace troupe {
namespace {

constexpr std::string_view kCodes = ".qweight", kWeight = ".weight";

std::string module_of(const std::string& name, std::string_view ending) {
  return name.substr(0, name.size() - ending.size());
}

// Directories of before 2023's end have a file of its own for GPTQ.
QuantizationConfig read_quantization(const std::filesystem::path& model) {
  const auto path = model / "config.json", older = model / "quantize_config.json";
  const auto document = read_json_file(path);
  const ConfigFields fields(document, path.string());
  if (fields.find("quantization_config") != nullptr || !std::filesystem::exists(older))
    return read_quantization_config(fields);
  auto of_gptq = read_json_file(older);
  if (of_gptq.is_object()) of_gptq["quant_method"] = "gptq";
  const nlohmann::json wrapped = {{"quantization_config", of_gptq}};
  return read_quantization_config(ConfigFields(wrapped, older.string()));
}

RawTensor raw(const WeightStore::Tensor& tensor) {
  RawTensor raw{.type = {}, .shape = tensor.view.shape, .bytes = tensor.view.bytes};
  if (tensor.is_readable) raw.type = tensor.view.type;
  if (tensor.element_type == "I32") raw.type = DataType::kI32;
  return raw;
}

}  // namespace

void WeightStore::join_quantized() {
  std::vector<std::string> four_bits, fp8;  // modules
  for (const auto& [name, tensor] : tensors_) {
    if (name.ends_with(kCodes)) four_bits.push_back(module_of(name, kCodes));
    if (tensor.element_type == "F8_E4M3" && name.ends_with(kWeight)) fp8.push_back(module_of(name, kWeight));
  }
  if (four_bits.empty() && fp8.empty()) return;
  quantization_ = read_quantization(model_);
  const QuantizationConfig& config = quantization_;
  const bool is_awq = config.format == WeightFormat::kAwq;
  if (is_awq || config.format == WeightFormat::kGptq) {
    for (const auto& module : four_bits) join_four_bits(module, config);
  }
  if (config.format == WeightFormat::kFp8) {
    for (const auto& module : fp8) join_fp8(module, config);
  }
}

void WeightStore::join_four_bits(const std::string& module, const QuantizationConfig& config) {
  const bool is_awq = config.format == WeightFormat::kAwq;
  Tensor tensor = tensors_.at(module + std::string(kCodes));
  replace_with_packed(module, is_awq ? "AWQ" : "GPTQ", std::move(tensor), [&](const RawTensor& codes) {
    FourBitParts parts{.packing = is_awq ? FourBitPacking::kAwq : FourBitPacking::kGptq,
                       .group_size = config.group_size,
                       .added_zero = config.added_zero,
                       .codes = codes,
                       .zeros = raw_tensor(module + ".qzeros"),
                       .scales = raw_tensor(module + ".scales")};
    if (!is_awq && has(module + ".g_idx")) parts.groups = raw_tensor(module + ".g_idx");
    return make_four_bit_tensor(std::move(parts));
  });
  for (const char* ending : {".qweight", ".qzeros", ".scales", ".g_idx"}) tensors_.erase(module + ending);
}

void WeightStore::join_fp8(const std::string& module, const QuantizationConfig& config) {
  const std::string name = module + std::string(kWeight);
  const std::string scales = has(name + "_scale_inv") ? name + "_scale_inv" : name + "_scale";
  Tensor tensor = tensors_.at(name);
  tensors_.erase(name);
  replace_with_packed(module, "F8_E4M3", std::move(tensor), [&](const RawTensor& codes) {
    return make_fp8_tensor(codes, raw_tensor(scales), config.block_size);
  });
  tensors_.erase(scales);
}

void WeightStore::replace_with_packed(
    const std::string& module, std::string element_type, Tensor tensor,
    const std::function<std::shared_ptr<const PackedTensor>(const RawTensor& codes)>& make) {
  WeightView& view = tensor.view;
  const std::string path = tensor.file->path().string();
  try {
    view.packed = make(raw(tensor));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": the matrix \"" + module + "\" in " + element_type + ": " +
                             error.what());
  }
  view.type = DataType::kF32;
  view.shape = view.packed->shape();
  view.blocks = view.packed->block_format();
  tensor.element_type = std::move(element_type);
  tensor.is_readable = true;
  add_unique(module + std::string(kWeight), std::move(tensor));
}

RawTensor WeightStore::raw_tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("has no tensor \"" + name + "\"");
  return raw(found->second);
}

}  // namespace troupe
