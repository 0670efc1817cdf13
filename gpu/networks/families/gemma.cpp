// SPDX-License-Identifier: Apache-2.0
// Gemma 2, which has soft caps, and 3, which has norms of heads and another rotary base for layers that
// slide.
#include "gpu/networks/gemma.hpp"

#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// null switches it off. The kernels' tanh errs by about 6e-8, which a cap of c makes 6e-8 c: a large one is
// refused.
float read_cap(const ConfigFields& fields, const char* name, float otherwise) {
  if (!fields.has(name)) return otherwise;
  return fields.number(name, 1e-3F, 1e4F).value_or(0.0F);
}

[[noreturn]] void refuse_partial(const ConfigFields& fields) {
  fields.refuse("partial_rotary_factor other than 1 is not supported");
}

// The entry of a kind of layer; both names of the object are in use. Null: none.
const json* find_rope(const ConfigFields& fields, const char* kind) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const json* kinds = fields.find(name);
    if (kinds != nullptr && kinds->is_object() && kinds->contains(kind)) return &(*kinds)[kind];
  }
  return nullptr;
}

// Newer files have it in an object for each kind of layer, older ones in a field.
float read_local_theta(const ConfigFields& fields) {
  constexpr float kUsual = 10000.0F;
  const json* rope = find_rope(fields, "sliding_attention");
  if (rope == nullptr) return fields.number("rope_local_base_freq", 1.0F, 1e12F).value_or(kUsual);
  const ConfigFields local(*rope, fields.file() + ": the rope scaling of sliding_attention");
  auto type = local.text("rope_type");
  if (!type) type = local.text("type");
  if (type && *type != "default")
    local.refuse("type \"" + type->substr(0, 48) + "\" is not supported (default is)");
  if (local.number("partial_rotary_factor", 0.0F, 1.0F).value_or(1.0F) != 1.0F) refuse_partial(local);
  return local.number("rope_theta", 1.0F, 1e12F).value_or(kUsual);
}

GemmaConfig read_own(const ConfigFields& fields, bool is_second, const ModelConfig& config) {
  const auto activation = fields.text("hidden_activation").value_or("gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") {
    fields.refuse("hidden_activation \"" + activation.substr(0, 48) +
                  "\" is not supported (gelu_pytorch_tanh is)");
  }
  if (fields.flag("use_bidirectional_attention", false))
    fields.refuse("attention to later tokens (use_bidirectional_attention) is not supported");
  if (config.rotary_dim != config.head_dim) refuse_partial(fields);
  GemmaConfig gemma = {};
  gemma.query_scalar = fields.number("query_pre_attn_scalar", 1e-3F, 1e6F).value_or(256.0F);
  gemma.attention_cap = read_cap(fields, "attn_logit_softcapping", is_second ? 50.0F : 0.0F);
  gemma.logit_cap = read_cap(fields, "final_logit_softcapping", is_second ? 30.0F : 0.0F);
  if (!is_second) gemma.local_theta = read_local_theta(fields);
  return gemma;
}

ModelConfig read_gemma(const std::string& architecture, const ConfigFields& fields, bool is_second) {
  ModelConfig config = read_decoder_config(architecture, fields,
                                           {.head_dim = 256,  // whatever the width
                                            .rope = {.theta = is_second ? 10000.0F : 1e6F},
                                            .ties_embeddings = true,
                                            .is_gated = false});
  const auto layers = [&] {
    const auto interval = is_second ? 2U : fields.count("sliding_window_pattern", kMaxLayers).value_or(6);
    return all_but_every(interval, config.num_layers);
  };
  read_sliding_window(fields, {.window = 4096, .layers = layers, .always_lists = true}, config);
  config.gemma = read_own(fields, is_second, config);
  config.head_norms = !is_second;
  return config;
}

ModelConfig read_gemma2(const std::string& architecture, const ConfigFields& fields,
                        const std::filesystem::path&) {
  return read_gemma(architecture, fields, true);
}
ModelConfig read_gemma3(const std::string& architecture, const ConfigFields& fields,
                        const std::filesystem::path&) {
  return read_gemma(architecture, fields, false);
}

json window_of_gemma2(const ArchitectureKeys& keys) {
  const auto window = keys.count("attention.sliding_window");
  return window ? json(*window) : json(nullptr);
}
// One without a window attends otherwise.
json window_of_gemma3(const ArchitectureKeys& keys) {
  return keys.required_count("attention.sliding_window");
}

// The largest models alone, which are known by their layers, divide scores by another number than the root
// of a head's width.
void add_fields(const ArchitectureKeys& keys, json& document) {
  const std::uint64_t largest = keys.name() == "gemma2" ? 46 : 62;
  document["query_pre_attn_scalar"] =
      keys.required_count("block_count") == largest
          ? json(keys.required_count("embedding_length") / keys.required_count("attention.head_count"))
          : document["head_dim"];
  const auto copy = [&](const char* suffix, const char* name) {
    if (const auto value = keys.number(suffix)) document[name] = *value;
  };
  copy("attn_logit_softcapping", "attn_logit_softcapping");
  copy("final_logit_softcapping", "final_logit_softcapping");
  copy("rope.freq_base_swa", "rope_local_base_freq");
  if (const auto interval = keys.count("attention.sliding_window_pattern"))
    document["sliding_window_pattern"] = *interval;
}

// A window is needed, be it longer than the context.
void add_keys(const ModelConfig& config, const std::string& prefix, GgufKeys& keys) {
  keys.add_count(prefix + "attention.sliding_window",
                 config.sliding_window > 0 ? config.sliding_window : config.context_length);
  const GemmaConfig& gemma = *config.gemma;
  if (gemma.attention_cap != 0.0F)
    keys.add_number(prefix + "attn_logit_softcapping", double{gemma.attention_cap});
  if (gemma.logit_cap != 0.0F) keys.add_number(prefix + "final_logit_softcapping", double{gemma.logit_cap});
  if (gemma.local_theta) keys.add_number(prefix + "rope.freq_base_swa", double{*gemma.local_theta});
}

constexpr GgufModule kGemmaModules[] = {{"ffn_norm", "pre_feedforward_layernorm"},
                                        {"post_attention_norm", "post_attention_layernorm"},
                                        {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr GgufFamily kGemma2Gguf = {.name = "gemma2",
                                    .modules = kGemmaModules,
                                    .window = window_of_gemma2,
                                    .add_fields = add_fields,
                                    .add_keys = add_keys};
constexpr GgufFamily kGemma3Gguf = {.name = "gemma3",
                                    .modules = kGemmaModules,
                                    .window = window_of_gemma3,
                                    .add_fields = add_fields,
                                    .add_keys = add_keys};

constexpr Family kGemmaFamilies[] = {
    {"Gemma2ForCausalLM", "gemma2", read_gemma2, make_network_of<GemmaNetwork>, &kGemma2Gguf},
    {"Gemma3ForCausalLM", "gemma3_text", read_gemma3, make_network_of<GemmaNetwork>, &kGemma3Gguf}};

}  // namespace

extern const std::span<const Family> kGemmaFamily = kGemmaFamilies;

}  // namespace troupe
