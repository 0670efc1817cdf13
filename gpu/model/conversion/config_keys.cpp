// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/conversion/config_keys.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "gpu/networks/families/families.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {
namespace {

void add_scaling(const ModelConfig& config, const std::string& prefix, GgufKeys& keys) {
  if (!config.rope_scaling) return;
  const RopeScaling& scaling = *config.rope_scaling;
  const std::string rope = prefix + "rope.scaling.";
  if (scaling.type == "longrope") {
    keys.add_count(rope + "original_context_length", scaling.original_context_length);
    keys.add_number(rope + "attn_factor", double{scaling.magnitude});
  }
  // llama3's is in a tensor, as longrope's divisors are.
  if (scaling.type != "linear" && scaling.type != "yarn") return;
  keys.add_text(rope + "type", scaling.type);
  keys.add_number(rope + "factor", double{scaling.factor});
  if (scaling.type == "linear") return;
  keys.add_count(rope + "original_context_length", scaling.original_context_length);
  keys.add_number(rope + "yarn_beta_fast", double{scaling.fast_rotations});
  keys.add_number(rope + "yarn_beta_slow", double{scaling.slow_rotations});
}

// By layer, with the lists' defaults filled in.
std::vector<bool> of_layers(const std::vector<bool>& listed, std::uint32_t num_layers) {
  return listed.empty() ? std::vector<bool>(num_layers, true) : listed;
}

bool are_close(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::abs(x - y) <= 1e-6F * std::max(std::abs(x), std::abs(y));
  });
}

// Frequencies are compared, as some files divide them where others name a scaling.
bool is_alike(const RotaryParameters& a, const RotaryParameters& b) {
  return are_close(rotary_frequencies(a), rotary_frequencies(b)) &&
         are_close({static_cast<float>(a.magnitude)}, {static_cast<float>(b.magnitude)}) &&
         are_close(a.long_divisors, b.long_divisors) &&
         (a.long_divisors.empty() || a.original_max_positions == b.original_max_positions);
}

bool rotate_alike(const ModelConfig& meant, const ModelConfig& said) {
  const ModelShapes a = make_network(meant)->shapes(), b = make_network(said)->shapes();
  if (!is_alike(a.rotary, b.rotary) || a.local_rotary.has_value() != b.local_rotary.has_value()) return false;
  return !a.local_rotary || is_alike(*a.local_rotary, *b.local_rotary);
}

std::string find_difference(const GemmaConfig& meant, const GemmaConfig& said) {
  if (meant.query_scalar != said.query_scalar) return "query_pre_attn_scalar";
  if (meant.attention_cap != said.attention_cap) return "attn_logit_softcapping";
  return meant.logit_cap != said.logit_cap ? "final_logit_softcapping" : "";
}

std::string find_difference(const ExpertsConfig& meant, const ExpertsConfig& said, std::uint32_t num_layers) {
  if (meant.num_experts != said.num_experts) return "num_experts";
  if (meant.num_chosen != said.num_chosen) return "num_experts_per_tok";
  if (meant.intermediate_size != said.intermediate_size) return "moe_intermediate_size";
  if (meant.normalizes != said.normalizes) return "norm_topk_prob";
  const bool is_same = of_layers(meant.is_mixed, num_layers) == of_layers(said.is_mixed, num_layers);
  return is_same ? "" : "mlp_only_layers";
}

}  // namespace

std::string gguf_architecture(const ModelConfig& config) {
  const Family* family = find_family(config.architecture);
  if (family == nullptr || family->gguf == nullptr) {
    const char* kind = config.encoder       ? "an encoder"
                       : config.has_pages() ? "a network"
                                            : "a network of cells";
    throw std::runtime_error(std::string(kind) + " of architecture \"" + config.architecture +
                             "\" can't be written as a GGUF file (" + known_gguf_architectures() + " can)");
  }
  return std::string(family->gguf->name);
}

void add_config_keys(const ModelConfig& config, GgufKeys& keys) {
  const std::string architecture = gguf_architecture(config), prefix = architecture + ".";
  keys.add_text("general.architecture", architecture);
  keys.add_count(prefix + "vocab_size", config.vocabulary_size);
  keys.add_count(prefix + "context_length", config.context_length);
  keys.add_count(prefix + "embedding_length", config.hidden_size);
  keys.add_count(prefix + "block_count", config.num_layers);
  keys.add_count(prefix + "feed_forward_length", config.intermediate_size);
  keys.add_count(prefix + "attention.head_count", config.num_heads);
  const GgufFamily& family = *find_family(config.architecture)->gguf;
  if (!family.counts_heads_by_layer) keys.add_count(prefix + "attention.head_count_kv", config.num_kv_heads);
  keys.add_count(prefix + "attention.key_length", config.head_dim);
  keys.add_count(prefix + "attention.value_length", config.head_dim);
  keys.add_number(prefix + "attention.layer_norm_rms_epsilon", double{config.norm_epsilon});
  keys.add_count(prefix + "rope.dimension_count", config.rotary_dim);
  keys.add_number(prefix + "rope.freq_base", double{config.rope_theta});
  add_scaling(config, prefix, keys);
  if (family.add_keys != nullptr) family.add_keys(config, prefix, keys);
  if (!config.experts) return;
  keys.add_count(prefix + "expert_count", config.experts->num_experts);
  keys.add_count(prefix + "expert_used_count", config.experts->num_chosen);
  keys.add_count(prefix + "expert_feed_forward_length", config.experts->intermediate_size);
}

std::vector<RopeTensor> rope_tensors(const ModelConfig& config) {
  if (!config.rope_scaling) return {};
  if (config.rope_scaling->type == "longrope")
    return {{"rope_factors_long.weight", config.rope_scaling->long_divisors},
            {"rope_factors_short.weight", config.rope_scaling->short_divisors}};
  if (config.rope_scaling->type != "llama3") return {};
  const RotaryParameters scaled = make_network(config)->shapes().rotary;
  RotaryParameters plain = scaled;
  plain.scaling = RotaryScaling::kNone;
  std::vector<float> divisors = rotary_frequencies(plain);
  const std::vector<float> frequencies = rotary_frequencies(scaled);
  for (std::size_t i = 0; i < divisors.size(); ++i) divisors[i] /= frequencies[i];
  return {{"rope_freqs.weight", std::move(divisors)}};
}

std::string find_difference(const ModelConfig& meant, const ModelConfig& said) {
  const auto layers = [&](const std::vector<bool>& listed) { return of_layers(listed, meant.num_layers); };
  const std::pair<const char*, bool> fields[] = {
      {"hidden_size", meant.hidden_size == said.hidden_size},
      {"intermediate_size", meant.intermediate_size == said.intermediate_size},
      {"num_hidden_layers", meant.num_layers == said.num_layers},
      {"num_attention_heads", meant.num_heads == said.num_heads},
      {"num_key_value_heads", meant.num_kv_heads == said.num_kv_heads},
      {"head_dim", meant.head_dim == said.head_dim},
      {"vocab_size", meant.vocabulary_size == said.vocabulary_size},
      {"max_position_embeddings", meant.context_length == said.context_length},
      {"rms_norm_eps", meant.norm_epsilon == said.norm_epsilon},
      {"tie_word_embeddings", meant.tied_embeddings == said.tied_embeddings},
      {"attention_bias", meant.attention_bias == said.attention_bias},
      {"mlp_bias", meant.mlp_bias == said.mlp_bias},
      {"no_rope_layers", layers(meant.is_rotated) == layers(said.is_rotated)},
      {"sliding_window", meant.sliding_window == said.sliding_window},
      {"layer_types", layers(meant.is_sliding) == layers(said.is_sliding)}};
  for (const auto& [name, is_same] : fields)
    if (!is_same) return name;
  if (!rotate_alike(meant, said)) return "rope_scaling";
  for (const std::int32_t token : meant.eos_tokens)
    if (std::find(said.eos_tokens.begin(), said.eos_tokens.end(), token) == said.eos_tokens.end())
      return "eos_token_id";
  if (meant.lfm2 && meant.lfm2->is_convolution != said.lfm2->is_convolution) return "layer_types";
  if (meant.lfm2 && meant.lfm2->num_taps != said.lfm2->num_taps) return "conv_L_cache";
  if (meant.gemma)
    if (auto name = find_difference(*meant.gemma, *said.gemma); !name.empty()) return name;
  return meant.experts ? find_difference(*meant.experts, *said.experts, meant.num_layers) : "";
}

}  // namespace troupe
