// SPDX-License-Identifier: Apache-2.0
// A family of models as one value: the names that files have for it, what is read of them, what is refused,
// and its network. Each family is a file of this folder and a name in families.cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "gpu/model/architecture_keys.hpp"
#include "gpu/model/config_fields.hpp"
#include "gpu/model/conversion/gguf_output.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

// A module's name in GGUF files and in directories, without what stands before and behind it. A stack of
// experts' matrices has a star where each of them has its number: "mlp.experts.*.up_proj".
struct GgufModule {
  std::string_view ours, theirs;
  bool has_suffix = true;  // theirs has the ".weight" of ours, too
};

// Tokens that end an answer by their spelling, where a file names one of them only.
inline constexpr std::string_view kUsualEndings[] = {
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>"};

// A family's GGUF files, as they differ from those of most. Functions throw std::runtime_error that names
// the file, and the key that is missing or asks for what is not supported.
struct GgufFamily {
  std::string_view name;                              // of "general.architecture"
  std::span<const GgufModule> modules = {};           // of layers, before those of most families
  std::span<const GgufModule> modules_of_model = {};  // beside the layers, likewise
  std::span<const std::string_view> endings = kUsualEndings;
  bool has_pairs = false;  // rows of a head of queries and keys lie in pairs (i, i + d/2)
  bool rotates_parts = false;
  // Layers have heads of keys and values, all as many, or 0: "attention.head_count_kv" is an array, which
  // add_keys writes.
  bool counts_heads_by_layer = false;
  // "sliding_window" of config.json; null: none. None: a file with a window is refused.
  nlohmann::json (*window)(const ArchitectureKeys& keys) = nullptr;
  // Fields of config.json beyond those that all families have.
  void (*add_fields)(const ArchitectureKeys& keys, nlohmann::json& document) = nullptr;
  // The inverse of both. prefix: "llama."
  void (*add_keys)(const ModelConfig& config, const std::string& prefix, GgufKeys& keys) = nullptr;
};

struct Family {
  std::string_view architecture;  // of "architectures"
  std::string_view model_type;    // of "model_type"; empty: another architecture of that type is meant
  // Throws std::runtime_error that names the file, the field and the value.
  ModelConfig (*read)(const std::string& architecture, const ConfigFields& fields,
                      const std::filesystem::path& model_dir);
  std::unique_ptr<Network> (*make_network)(ModelConfig config);
  const GgufFamily* gguf = nullptr;  // null: no such files are read
  bool is_mixture = false;           // of experts
};

template <class NetworkOfFamily>
std::unique_ptr<Network> make_network_of(ModelConfig config) {
  return std::make_unique<NetworkOfFamily>(std::move(config));
}

}  // namespace troupe
