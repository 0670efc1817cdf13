// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_facts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include <openssl/evp.h>

#include "app/loading/model_source.hpp"
#include "gpu/model/weights.hpp"

namespace troupe {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// "llama" of LlamaForCausalLM, "bert" of BertModel.
std::string family_of(const std::string& architecture) {
  return lower_case(architecture.substr(0, std::min(architecture.find("For"), architecture.find("Model"))));
}

std::string sha256_of(const std::string& text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL can't compute SHA-256");
  std::string out;
  for (unsigned i = 0; i < size; ++i) {
    out += kHex[bytes[i] >> 4];
    out += kHex[bytes[i] & 15];
  }
  return out;
}

void add_weights(const WeightStore& store, ModelFacts& facts) {
  facts.format = store.is_gguf() ? "gguf" : "safetensors";
  std::map<std::string, std::uint64_t> elements;  // by type
  for (const auto& [name, tensor] : store.tensors()) {
    std::uint64_t number = 1;  // no overflow: checked when the file was read
    for (const auto dimension : tensor.view.shape) number *= dimension;
    elements[tensor.element_type] += number;
    facts.num_parameters += number;
  }
  const auto has_fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(elements.begin(), elements.end(), has_fewer);
  if (most != elements.end()) facts.weight_type = most->first;
}

void add_files(const std::filesystem::path& model, ModelFacts& facts) {
  std::string names;
  for (const auto& file : weight_files(model)) {
    const std::uint64_t size = std::filesystem::file_size(file);
    names += file.filename().string() + " " + std::to_string(size) + "\n";
    facts.size_bytes += size;
    const auto written = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(file));
    facts.modified = std::max<std::int64_t>(
        facts.modified,
        std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(written)));
  }
  facts.digest = sha256_of(names);
}

}  // namespace

ModelFacts model_facts(const LoadedModel& model) {
  const std::filesystem::path path = model.options.models.front().dir;
  ModelFacts facts;
  facts.family = family_of(model.config.architecture);
  facts.width = model.config.hidden_size;
  facts.num_layers = model.config.num_layers;
  facts.memory_bytes = model.planned_bytes;
  facts.is_on_gpu = model.device_summary.starts_with("cuda");
  add_files(path, facts);
  if (model.served.network) add_weights(WeightStore(path), facts);
  if (model.options.quantize == "q8" || model.options.quantize == "q4")
    facts.weight_type = upper_case(model.options.quantize);
  return facts;
}

}  // namespace troupe
