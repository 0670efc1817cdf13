// SPDX-License-Identifier: Apache-2.0
// Phi-3 and 4: fused projections, of a head perhaps a part is rotated, longrope.
#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"
#include "gpu/networks/llama.hpp"

namespace troupe {
namespace {

using nlohmann::json;

ModelConfig read_phi3(const std::string& architecture, const ConfigFields& fields,
                      const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields, {});
  read_sliding_window(fields, {}, config);
  config.fused_projections = true;
  return config;
}

// Older files with a context of 4096 leave theirs out.
json window_of(const ArchitectureKeys& keys) {
  const auto window = keys.count("attention.sliding_window");
  if (!window) return keys.required_count("context_length") == 4096 ? json(2047) : json(nullptr);
  return *window == 0 ? json(nullptr) : json(*window);
}

void add_keys(const ModelConfig& config, const std::string& prefix, GgufKeys& keys) {
  keys.add_count(prefix + "attention.sliding_window", config.sliding_window);
}

// One matrix, in which gate's rows are the first.
constexpr GgufModule kPhi3Modules[] = {{"ffn_up", "mlp.gate_up_proj"}};
constexpr GgufFamily kPhi3Gguf = {.name = "phi3",
                                  .modules = kPhi3Modules,
                                  .rotates_parts = true,
                                  .window = window_of,
                                  .add_keys = add_keys};

constexpr Family kPhi3Families[] = {
    {"Phi3ForCausalLM", "phi3", read_phi3, make_network_of<LlamaNetwork>, &kPhi3Gguf}};

}  // namespace

extern const std::span<const Family> kPhi3Family = kPhi3Families;

}  // namespace troupe
