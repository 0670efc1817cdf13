// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/model/architecture_keys.hpp"
#include "gpu/networks/families/families.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint64_t kControlToken = 3;

constexpr GgufModule kModulesOfModel[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
constexpr GgufModule kModulesOfLayers[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj"},  // one tensor of all experts
    {"ffn_up_exps", "mlp.experts.*.up_proj"},
    {"ffn_down_exps", "mlp.experts.*.down_proj"},
};

// The entry with that value, in the family's own list first; null: there is none.
const GgufModule* find_module(std::string_view GgufModule::*member, std::string_view module,
                              std::span<const GgufModule> own, std::span<const GgufModule> of_most) {
  for (const auto list : {own, of_most})
    for (const GgufModule& known : list)
      if (known.*member == module) return &known;
  return nullptr;
}

// An expert's matrix in a tensor of its own, as files of early 2024 have it, and the stack that newer ones
// have.
struct ExpertOfStack {
  std::string name, expert;
};

// "ffn_gate.7": expert 7 of "ffn_gate_exps".
std::optional<ExpertOfStack> stack_of(std::string_view module) {
  const std::size_t dot = module.find('.');
  if (dot == std::string_view::npos || dot + 1 == module.size()) return std::nullopt;
  const std::string_view expert = module.substr(dot + 1);
  const bool is_number =
      expert.size() <= 4 && (expert == "0" || expert.front() != '0') &&
      std::all_of(expert.begin(), expert.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) return std::nullopt;
  return ExpertOfStack{std::string(module.substr(0, dot)) + "_exps", std::string(expert)};
}

std::uint64_t head_dim_of(const GgufFile& file, const ArchitectureKeys& keys) {
  const std::uint64_t num_heads = keys.required_count("attention.head_count");
  if (num_heads == 0) file.refuse(keys.key("attention.head_count") + " is 0");
  return keys.count("attention.key_length").value_or(keys.required_count("embedding_length") / num_heads);
}

std::uint64_t kv_heads_of(const ArchitectureKeys& keys, const GgufFamily& family, std::uint64_t num_heads) {
  constexpr const char* kKey = "attention.head_count_kv";
  const auto layers = family.counts_heads_by_layer ? keys.layer_counts(kKey) : std::vector<std::uint64_t>();
  if (layers.empty()) return keys.count(kKey).value_or(num_heads);
  const std::uint64_t most = *std::max_element(layers.begin(), layers.end());
  if (!std::all_of(layers.begin(), layers.end(), [&](auto count) { return count == 0 || count == most; }))
    keys.file().refuse(keys.key(kKey) + " has counts other than 0 that differ, which is not supported");
  return most;
}

std::uint64_t vocabulary_size(const GgufFile& file, const ArchitectureKeys& keys) {
  const GgufValue::Array* tokens = file.find_array("tokenizer.ggml.tokens");
  if (const auto size = keys.count("vocab_size")) {
    if (tokens != nullptr && tokens->size() > *size)
      file.refuse(keys.key("vocab_size") + " is " + std::to_string(*size) + ", less than the " +
                  std::to_string(tokens->size()) + " tokens of tokenizer.ggml.tokens");
    return *size;
  }
  if (tokens == nullptr) file.refuse("has neither " + keys.key("vocab_size") + " nor tokenizer.ggml.tokens");
  return tokens->size();
}

// Shares are a softmax of the logits of those chosen, so it does not matter if it was of all logits before.
void refuse_other_experts(const GgufFile& file, const ArchitectureKeys& keys) {
  constexpr std::uint64_t kUnstated = 0, kSoftmax = 1, kSoftmaxOfChosen = 3;
  if (keys.count("expert_shared_count").value_or(0) > 0)
    file.refuse("experts that all tokens share (" + keys.key("expert_shared_count") + ") are not supported");
  const double scale = keys.number("expert_weights_scale").value_or(1.0);
  if (scale != 0.0 && scale != 1.0)
    file.refuse("a scale of experts' shares (" + keys.key("expert_weights_scale") + ") is not supported");
  if (!keys.flag("expert_weights_norm").value_or(true))
    file.refuse("experts' shares that don't sum to 1 (" + keys.key("expert_weights_norm") +
                ") are not supported");
  const std::uint64_t gate = keys.count("expert_gating_func").value_or(kSoftmax);
  if (gate != kUnstated && gate != kSoftmax && gate != kSoftmaxOfChosen)
    file.refuse(keys.key("expert_gating_func") + " is " + std::to_string(gate) +
                ", expected 1 or 3 (a softmax)");
}

// Features that would change the numbers and that no code here computes.
void refuse_unsupported(const GgufFile& file, const ArchitectureKeys& keys, const Family& family,
                        std::uint64_t head_dim) {
  if (keys.count("expert_count").value_or(0) > 0 && !family.is_mixture)
    file.refuse("a mixture of experts (" + keys.key("expert_count") + ") is not supported");
  refuse_other_experts(file, keys);
  if (keys.count("attention.value_length").value_or(head_dim) != head_dim) {
    file.refuse(keys.key("attention.value_length") + " other than the keys' " + std::to_string(head_dim) +
                " is not supported");
  }
  const std::uint64_t rotated = keys.count("rope.dimension_count").value_or(head_dim);
  if (rotated != head_dim && (!family.gguf->rotates_parts || rotated > head_dim)) {
    file.refuse(keys.key("rope.dimension_count") + " other than the heads' " + std::to_string(head_dim) +
                " is not supported");
  }
  // A model that embeds texts has the architecture's name of one that answers.
  if (!keys.flag("attention.causal").value_or(true))
    file.refuse(keys.key("attention.causal") + " false is not supported");
  if (family.gguf->window == nullptr && keys.count("attention.sliding_window").value_or(0) > 0)
    file.refuse(keys.key("attention.sliding_window") + " is not supported");
}

std::vector<float> values_of(const GgufFile::Tensor& tensor) {
  std::vector<float> values(tensor.entry.size_bytes / sizeof(float));
  dequantize(BlockFormat::kF32, tensor.bytes(), values);
  return values;
}

json numbers_of(const GgufFile& file, const char* name) {
  const GgufFile::Tensor* tensor = file.find_tensor(name);
  if (tensor == nullptr || tensor->entry.type_name() != "F32")
    file.refuse(std::string(name) + " is not of F32");
  return values_of(*tensor);
}

// Phi-3 with a long context: the divisors are tensors.
json longrope_of(const GgufFile& file, const ArchitectureKeys& keys) {
  json rope = {
      {"rope_type", "longrope"},
      {"short_factor", numbers_of(file, "rope_factors_short.weight")},
      {"long_factor", numbers_of(file, "rope_factors_long.weight")},
      {"original_max_position_embeddings", keys.required_count("rope.scaling.original_context_length")}};
  if (const auto factor = keys.number("rope.scaling.attn_factor")) rope["attention_factor"] = *factor;
  return rope;
}

// Null: none.
json rope_scaling_of(const GgufFile& file, const ArchitectureKeys& keys) {
  if (file.find_tensor("rope_factors_long.weight") != nullptr) return longrope_of(file, keys);
  const std::string* type = keys.text("rope.scaling.type");
  double factor = keys.number("rope.scaling.factor").value_or(0.0);
  if (type == nullptr && factor == 0.0) factor = keys.number("rope.scale_linear").value_or(0.0);
  const bool is_none = type != nullptr ? *type == "none" : factor == 0.0;
  if (is_none) return nullptr;
  json rope = {{"rope_type", type == nullptr ? std::string("linear") : *type}, {"factor", factor}};
  if (const auto original = keys.count("rope.scaling.original_context_length")) {
    rope["original_max_position_embeddings"] = *original;
  }
  for (const auto& [ours, theirs] : {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                     std::pair{"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
    if (const auto beta = keys.number(ours)) rope[theirs] = *beta;
  }
  return rope;
}

// The least above rotated / head_dim: the product with head_dim, which is cut to an integer, may not fall
// short of the count.
double partial_factor(std::uint64_t rotated, std::uint64_t head_dim) {
  return std::nextafter(static_cast<double>(rotated) / static_cast<double>(head_dim), 1.0);
}

// A file whose shares don't sum to 1 was refused.
void add_experts(const ArchitectureKeys& keys, json& document) {
  const std::uint64_t count = keys.required_count("expert_count");
  document["num_experts"] = document["num_local_experts"] = count;
  document["num_experts_per_tok"] = keys.required_count("expert_used_count");
  if (const auto width = keys.count("expert_feed_forward_length")) document["moe_intermediate_size"] = *width;
  document["norm_topk_prob"] = true;
}

// An unknown architecture is taken for one like most.
GgufFamily family_of(std::string_view architecture) {
  const GgufFamily* family = find_gguf(architecture);
  return family == nullptr ? GgufFamily{} : *family;
}

void add_token(const GgufFile& file, const char* key, json& tokens) {
  if (const auto token = file.find_unsigned(key)) tokens.push_back(*token);
}

// Every token that ends an answer: the named ones, and control tokens spelled as endings.
json ending_tokens(const GgufFile& file, const ArchitectureKeys& keys) {
  json endings = json::array();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    add_token(file, key, endings);
  }
  const GgufValue::Array* tokens = file.find_array("tokenizer.ggml.tokens");
  const GgufValue::Array* types = file.find_array("tokenizer.ggml.token_type");
  const std::size_t count =
      tokens == nullptr || types == nullptr ? 0 : std::min(tokens->size(), types->size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::string* text = (*tokens)[i].as_text();
    const std::uint64_t* type = (*types)[i].as_unsigned();
    const bool ends =
        text != nullptr && type != nullptr && *type == kControlToken && ends_by_spelling(*text, keys.name());
    if (ends) endings.push_back(i);
  }
  return endings;
}

}  // namespace

json gguf_config_document(const GgufFile& file) {
  const ArchitectureKeys keys(file);
  const Family* family = find_gguf_family(keys.name(), false);
  // Only of a known one: another's count may be anything.
  if (family != nullptr) family = find_gguf_family(keys.name(), keys.count("expert_count").value_or(0) > 0);
  if (family == nullptr) {
    file.refuse("the architecture " + shown_gguf_name(keys.name()) + " is not supported (" +
                known_gguf_architectures() + " are)");
  }
  const std::uint64_t head_dim = head_dim_of(file, keys);
  refuse_unsupported(file, keys, *family, head_dim);
  const auto epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (!epsilon) file.refuse(keys.key("attention.layer_norm_rms_epsilon") + " is missing");
  const std::uint64_t num_heads = keys.required_count("attention.head_count");
  const bool has_output = file.find_tensor("output.weight") != nullptr;
  const GgufFile::Tensor* embedding = file.find_tensor("token_embd.weight");
  const bool is_f32 = embedding != nullptr && embedding->entry.type_name() == "F32";
  const auto window = family->gguf->window;
  json bos = json::array();
  add_token(file, "tokenizer.ggml.bos_token_id", bos);
  json document = {{"architectures", json::array({std::string(family->architecture)})},
                   {"hidden_size", keys.required_count("embedding_length")},
                   {"intermediate_size", keys.required_count("feed_forward_length")},
                   {"num_hidden_layers", keys.required_count("block_count")},
                   {"num_attention_heads", num_heads},
                   {"num_key_value_heads", kv_heads_of(keys, *family->gguf, num_heads)},
                   {"head_dim", head_dim},
                   {"vocab_size", vocabulary_size(file, keys)},
                   {"max_position_embeddings", keys.required_count("context_length")},
                   {"rms_norm_eps", *epsilon},
                   {"rope_theta", keys.number("rope.freq_base").value_or(10000.0)},
                   {"rope_scaling", rope_scaling_of(file, keys)},
                   {"partial_rotary_factor",
                    partial_factor(keys.count("rope.dimension_count").value_or(head_dim), head_dim)},
                   {"sliding_window", window == nullptr ? json(nullptr) : window(keys)},
                   {"tie_word_embeddings", !has_output},
                   {"attention_bias", file.find_tensor("blk.0.attn_q.bias") != nullptr},
                   {"mlp_bias", file.find_tensor("blk.0.ffn_down.bias") != nullptr},
                   {"bos_token_id", std::move(bos)},
                   {"eos_token_id", ending_tokens(file, keys)},
                   {"torch_dtype", is_f32 ? "float32" : "bfloat16"}};
  if (family->is_mixture) add_experts(keys, document);
  if (family->gguf->add_fields != nullptr) family->gguf->add_fields(keys, document);
  return document;
}

bool ends_by_spelling(std::string_view token, std::string_view architecture) {
  const auto spellings = family_of(architecture).endings;
  return std::find(spellings.begin(), spellings.end(), token) != spellings.end();
}

json gguf_generation_document(const GgufFile& file) {
  json document = json::object();
  const auto copy = [&](const char* key, const char* name) {
    if (const auto value = file.find_number(key)) document[name] = *value;
  };
  copy("general.sampling.temp", "temperature");
  copy("general.sampling.top_p", "top_p");
  copy("general.sampling.min_p", "min_p");
  copy("general.sampling.penalty_repeat", "repetition_penalty");
  copy("general.sampling.xtc_probability", "xtc_probability");
  copy("general.sampling.mirostat", "mirostat");
  // Which of the last tokens are penalized; here all are, and 0 is none.
  if (file.find_number("general.sampling.penalty_last_n") == 0.0) document.erase("repetition_penalty");
  if (document.value("repetition_penalty", 1.0) != 1.0)
    copy("general.sampling.penalty_last_n", "penalty_last_n");
  if (const auto top_k = file.find_number("general.sampling.top_k")) {
    document["top_k"] = std::abs(*top_k) < 1e9 ? json(std::llround(*top_k)) : json(*top_k);
  }
  return document;
}

std::vector<float> gguf_rope_divisors(const GgufFile& file, std::uint32_t head_dim) {
  const GgufFile::Tensor* tensor = file.find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return {};
  const bool fits = tensor->entry.type_name() == "F32" &&
                    tensor->entry.size_bytes == std::uint64_t{head_dim} / 2 * sizeof(float);
  if (!fits) file.refuse("rope_freqs.weight is not " + std::to_string(head_dim / 2) + " numbers of F32");
  std::vector<float> divisors = values_of(*tensor);
  const bool are_valid = std::all_of(divisors.begin(), divisors.end(),
                                     [](float divisor) { return divisor >= 1e-6F && divisor <= 1e6F; });
  if (!are_valid) file.refuse("rope_freqs.weight has a number outside 1e-6 to 1e6");
  return divisors;
}

std::string hugging_face_name(std::string_view tensor, std::string_view architecture) {
  const std::size_t suffix_at = tensor.rfind('.');
  if (suffix_at == std::string_view::npos) return std::string(tensor);
  const std::string suffix(tensor.substr(suffix_at));
  std::string_view module = tensor.substr(0, suffix_at);
  const GgufFamily family = family_of(architecture);
  if (const auto* known = find_module(&GgufModule::ours, module, family.modules_of_model, kModulesOfModel))
    return std::string(known->theirs) + suffix;
  constexpr std::string_view kLayer = "blk.";
  const std::size_t number_end = module.find('.', kLayer.size());
  if (!module.starts_with(kLayer) || number_end == std::string_view::npos) return std::string(tensor);
  const std::string number(module.substr(kLayer.size(), number_end - kLayer.size()));
  module.remove_prefix(number_end + 1);
  if (const auto* known = find_module(&GgufModule::ours, module, family.modules, kModulesOfLayers))
    return "model.layers." + number + "." + std::string(known->theirs) + (known->has_suffix ? suffix : "");
  if (const auto stack = stack_of(module)) {
    const std::string of_all = hugging_face_name("blk." + number + "." + stack->name + suffix, architecture);
    const std::size_t star = of_all.find('*');
    if (star != std::string::npos) return std::string(of_all).replace(star, 1, stack->expert);
  }
  return std::string(tensor);
}

std::string gguf_tensor_name(std::string_view tensor, std::string_view architecture) {
  constexpr std::string_view kLayers = "model.layers.", kExperts = "experts.";
  std::string module(tensor);
  const GgufFamily family = family_of(architecture);
  for (const GgufModule& own : family.modules)
    if (!own.has_suffix && module.ends_with("." + std::string(own.theirs))) module += ".weight";
  const std::size_t suffix_at = module.rfind('.');
  if (suffix_at == std::string::npos) return "";
  const std::string suffix = module.substr(suffix_at);
  module.resize(suffix_at);
  if (const auto* known = find_module(&GgufModule::theirs, module, family.modules_of_model, kModulesOfModel))
    return std::string(known->ours) + suffix;
  const std::size_t number_end = module.find('.', kLayers.size());
  if (!module.starts_with(kLayers) || number_end == std::string::npos) return "";
  const std::string number = module.substr(kLayers.size(), number_end - kLayers.size());
  module.erase(0, number_end + 1);
  if (const std::size_t at = module.find(kExperts); at != std::string::npos) {
    const std::size_t expert = at + kExperts.size();
    module.replace(expert, module.find('.', expert) - expert, "*");
  }
  const auto* known = find_module(&GgufModule::theirs, module, family.modules, kModulesOfLayers);
  return known == nullptr ? "" : "blk." + number + "." + std::string(known->ours) + suffix;
}

bool has_gguf_pairs(std::string_view architecture) { return family_of(architecture).has_pairs; }

std::uint32_t gguf_paired_rows(const GgufFile& file, std::string_view tensor) {
  const bool is_rotated = tensor.ends_with(".attn_q.weight") || tensor.ends_with(".attn_k.weight") ||
                          tensor.ends_with(".attn_q.bias") || tensor.ends_with(".attn_k.bias");
  const ArchitectureKeys keys(file);
  if (!is_rotated || !has_gguf_pairs(keys.name())) return 0;
  const std::uint64_t head_dim = head_dim_of(file, keys);
  const GgufTensor& entry = file.find_tensor(tensor)->entry;
  const std::uint64_t num_rows = entry.dimensions.back();
  // A vector in another order is read element by element: blocks can't be.
  if (entry.dimensions.size() == 1 && entry.layout != nullptr && !entry.layout->plain)
    file.refuse("tensor " + shown_gguf_name(tensor) + " is a vector in blocks, expected F32, F16 or BF16");
  if (head_dim == 0 || head_dim % 2 != 0 || head_dim > num_rows || num_rows % head_dim != 0) {
    file.refuse("tensor " + shown_gguf_name(tensor) + " has " + std::to_string(num_rows) +
                " rows, expected heads of " + std::to_string(head_dim));
  }
  return static_cast<std::uint32_t>(head_dim);
}

}  // namespace troupe
