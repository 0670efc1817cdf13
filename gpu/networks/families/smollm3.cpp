// SPDX-License-Identifier: Apache-2.0
// SmolLM3: some layers have no positions; those may slide.
#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"
#include "gpu/networks/llama.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// Every fourth layer has no positions, unless a list says otherwise (1: it has).
void read_rotated_layers(const ConfigFields& fields, ModelConfig& config) {
  const auto interval = fields.count("no_rope_layer_interval", kMaxLayers).value_or(4);
  config.is_rotated = all_but_every(interval, config.num_layers);
  const json* list = layer_list(fields, "no_rope_layers", config);
  for (std::uint32_t layer = 0; list != nullptr && layer < config.num_layers; ++layer) {
    const json& value = (*list)[layer];
    if (value != 0 && value != 1)
      fields.refuse("no_rope_layers has " + ConfigFields::shown(value) + ", expected 0 or 1");
    config.is_rotated[layer] = value == 1;
  }
}

ModelConfig read_smollm3(const std::string& architecture, const ConfigFields& fields,
                         const std::filesystem::path&) {
  ModelConfig config =
      read_decoder_config(architecture, fields, {.rope = {.theta = 2e6F}, .ties_embeddings = true});
  read_rotated_layers(fields, config);
  const auto others = [&] {
    std::vector<bool> layers = config.is_rotated;
    layers.flip();
    return layers;
  };
  if (fields.flag("use_sliding_window", false)) read_sliding_window(fields, {.layers = others}, config);
  return config;
}

constexpr GgufFamily kSmolLm3Gguf = {.name = "smollm3", .has_pairs = true};

constexpr Family kSmolLm3Families[] = {
    {"SmolLM3ForCausalLM", "smollm3", read_smollm3, make_network_of<LlamaNetwork>, &kSmolLm3Gguf}};

}  // namespace

extern const std::span<const Family> kSmolLm3Family = kSmolLm3Families;

}  // namespace troupe
