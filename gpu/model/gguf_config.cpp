// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/model/experts_config.hpp"
#include "gpu/model/families.hpp"
#include "gpu/model/gemma_config.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kPhi3 = "phi3";
constexpr const char* kGptOss = "gpt-oss";
// Queries and keys of these lie in pairs.
constexpr std::array<std::string_view, 2> kPaired = {"llama", "smollm3"};

// Tokens that end an answer by their spelling, where the file names one of them only.
constexpr std::array<std::string_view, 7> kEndings = {
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>"};
// gpt-oss' "<|end|>" ends a message, behind which the answer goes on.
constexpr std::array<std::string_view, 3> kEndingsOfGptOss = {"<|return|>", "<|call|>", "<|endoftext|>"};
constexpr std::uint64_t kControlToken = 3;

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kModelTensors = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kLayerTensors = {{
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
}};

// Names that stand for something else in one architecture.
struct OtherName {
  std::string_view architecture, ours, theirs;
};
constexpr OtherName kOtherNames[] = {
    {"llama", "ffn_gate_inp", "block_sparse_moe.gate"},  // Mixtral's
    {"llama", "ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"llama", "ffn_up_exps", "block_sparse_moe.experts.*.w3"},
    {"llama", "ffn_down_exps", "block_sparse_moe.experts.*.w2"},
    {kPhi3, "ffn_up", "mlp.gate_up_proj"},  // one matrix, in which gate's rows are the first
    {kGptOss, "post_attention_norm", "post_attention_layernorm"},
    {kGptOss, "ffn_gate_inp", "mlp.router"},
    {"gemma2", "ffn_norm", "pre_feedforward_layernorm"},
    {"gemma2", "post_attention_norm", "post_attention_layernorm"},
    {"gemma2", "post_ffw_norm", "post_feedforward_layernorm"},
    {"gemma3", "ffn_norm", "pre_feedforward_layernorm"},
    {"gemma3", "post_attention_norm", "post_attention_layernorm"},
    {"gemma3", "post_ffw_norm", "post_feedforward_layernorm"},
};

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

// Keys of the file's architecture: "llama.block_count".
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const GgufFile& file) : file_(file) {
    const std::string* name = file.find_text("general.architecture");
    if (name == nullptr) file.refuse("has no general.architecture");
    name_ = *name;
  }

  const std::string& name() const { return name_; }
  std::string key(const char* suffix) const { return name_ + "." + suffix; }
  bool has(const char* suffix) const { return file_.find_value(key(suffix)) != nullptr; }

  // One number, or an array of the same number for each layer.
  std::optional<std::uint64_t> count(const char* suffix) const {
    const GgufValue* value = file_.find_value(key(suffix));
    if (value == nullptr || value->as_array() == nullptr) return file_.find_unsigned(key(suffix));
    const GgufValue::Array& layers = *value->as_array();
    for (const GgufValue& layer : layers) {
      if (layer.as_unsigned() == nullptr || layers.front().as_unsigned() == nullptr ||
          *layer.as_unsigned() != *layers.front().as_unsigned()) {
        file_.refuse(key(suffix) + " differs between layers, which is not supported");
      }
    }
    if (layers.empty()) file_.refuse(key(suffix) + " is an empty array");
    return *layers.front().as_unsigned();
  }
  std::uint64_t required_count(const char* suffix) const {
    const auto value = count(suffix);
    if (!value) file_.refuse(key(suffix) + " is missing");
    return *value;
  }
  std::optional<double> number(const char* suffix) const { return file_.find_number(key(suffix)); }
  std::optional<bool> flag(const char* suffix) const { return file_.find_bool(key(suffix)); }
  const std::string* text(const char* suffix) const { return file_.find_text(key(suffix)); }

 private:
  const GgufFile& file_;
  std::string name_;
};

std::uint64_t head_dim_of(const GgufFile& file, const ArchitectureKeys& keys) {
  const std::uint64_t num_heads = keys.required_count("attention.head_count");
  if (num_heads == 0) file.refuse(keys.key("attention.head_count") + " is 0");
  return keys.count("attention.key_length").value_or(keys.required_count("embedding_length") / num_heads);
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
void refuse_unsupported(const GgufFile& file, const ArchitectureKeys& keys, Family family,
                        std::uint64_t head_dim) {
  if (keys.count("expert_count").value_or(0) > 0 && !is_mixture(family))
    file.refuse("a mixture of experts (" + keys.key("expert_count") + ") is not supported");
  refuse_other_experts(file, keys);
  if (keys.count("attention.value_length").value_or(head_dim) != head_dim) {
    file.refuse(keys.key("attention.value_length") + " other than the keys' " + std::to_string(head_dim) +
                " is not supported");
  }
  const std::uint64_t rotated = keys.count("rope.dimension_count").value_or(head_dim);
  if (rotated != head_dim && (keys.name() != kPhi3 || rotated > head_dim)) {
    file.refuse(keys.key("rope.dimension_count") + " other than the heads' " + std::to_string(head_dim) +
                " is not supported");
  }
  if (keys.count("attention.sliding_window").value_or(0) > 0 && keys.name() != kPhi3 &&
      keys.name() != kGptOss && !is_gemma(family)) {
    file.refuse(keys.key("attention.sliding_window") + " is not supported");
  }
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
  if (keys.name() == kGptOss) rope["truncate"] = false;  // not in the format
  return rope;
}

// The least above rotated / head_dim: the product with head_dim, which is cut to an integer, may not fall
// short of the count.
double partial_factor(std::uint64_t rotated, std::uint64_t head_dim) {
  return std::nextafter(static_cast<double>(rotated) / static_cast<double>(head_dim), 1.0);
}

// Null: none, or as the family's configuration has it. Older files of Phi-3 with a context of 4096 leave
// theirs out; a Gemma 3 without one attends otherwise.
json sliding_window_of(const ArchitectureKeys& keys) {
  if (keys.name() == "gemma3" || keys.name() == kGptOss)
    return keys.required_count("attention.sliding_window");
  const auto window = keys.count("attention.sliding_window");
  if (keys.name() != kPhi3) return window ? json(*window) : json(nullptr);
  if (!window) return keys.required_count("context_length") == 4096 ? json(2047) : json(nullptr);
  return *window == 0 ? json(nullptr) : json(*window);
}

// The largest models alone, which are known by their layers, divide scores by another number than the root
// of a head's width.
void add_gemma(const ArchitectureKeys& keys, Family family, std::uint64_t head_dim, json& document) {
  const std::uint64_t largest = family == Family::kGemma2 ? 46 : 62;
  document["query_pre_attn_scalar"] =
      keys.required_count("block_count") == largest
          ? keys.required_count("embedding_length") / keys.required_count("attention.head_count")
          : head_dim;
  const auto copy = [&](const char* suffix, const char* name) {
    if (const auto value = keys.number(suffix)) document[name] = *value;
  };
  copy("attn_logit_softcapping", "attn_logit_softcapping");
  copy("final_logit_softcapping", "final_logit_softcapping");
  copy("rope.freq_base_swa", "rope_local_base_freq");
  if (const auto interval = keys.count("attention.sliding_window_pattern"))
    document["sliding_window_pattern"] = *interval;
}

// A file whose shares don't sum to 1 was refused.
void add_experts(const ArchitectureKeys& keys, json& document) {
  const std::uint64_t count = keys.required_count("expert_count");
  document["num_experts"] = document["num_local_experts"] = count;
  document["num_experts_per_tok"] = keys.required_count("expert_used_count");
  if (const auto width = keys.count("expert_feed_forward_length")) document["moe_intermediate_size"] = *width;
  document["norm_topk_prob"] = true;
}

// The architecture "llama" is Mixtral's, too.
const FamilyNames* find_family_of(const ArchitectureKeys& keys) {
  const FamilyNames* family = find_gguf_family(keys.name());
  const bool has_experts = family != nullptr && keys.count("expert_count").value_or(0) > 0;
  return has_experts && family->family == Family::kLlama ? find_family("MixtralForCausalLM") : family;
}

void add_token(const GgufFile& file, const char* key, json& tokens) {
  if (const auto token = file.find_unsigned(key)) tokens.push_back(*token);
}

std::span<const std::string_view> ending_spellings(std::string_view architecture) {
  if (architecture == kGptOss) return kEndingsOfGptOss;
  return kEndings;
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
  const FamilyNames* family = find_family_of(keys);
  if (family == nullptr) {
    file.refuse("the architecture " + shown_gguf_name(keys.name()) + " is not supported (" +
                known_gguf_architectures() + " are)");
  }
  const std::uint64_t head_dim = head_dim_of(file, keys);
  refuse_unsupported(file, keys, family->family, head_dim);
  const auto epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (!epsilon) file.refuse(keys.key("attention.layer_norm_rms_epsilon") + " is missing");
  const std::uint64_t num_heads = keys.required_count("attention.head_count");
  const bool has_output = file.find_tensor("output.weight") != nullptr;
  const GgufFile::Tensor* embedding = file.find_tensor("token_embd.weight");
  const bool is_f32 = embedding != nullptr && embedding->entry.type_name() == "F32";
  json bos = json::array();
  add_token(file, "tokenizer.ggml.bos_token_id", bos);
  json document = {{"architectures", json::array({std::string(family->architecture)})},
                   {"hidden_size", keys.required_count("embedding_length")},
                   {"intermediate_size", keys.required_count("feed_forward_length")},
                   {"num_hidden_layers", keys.required_count("block_count")},
                   {"num_attention_heads", num_heads},
                   {"num_key_value_heads", keys.count("attention.head_count_kv").value_or(num_heads)},
                   {"head_dim", head_dim},
                   {"vocab_size", vocabulary_size(file, keys)},
                   {"max_position_embeddings", keys.required_count("context_length")},
                   {"rms_norm_eps", *epsilon},
                   {"rope_theta", keys.number("rope.freq_base").value_or(10000.0)},
                   {"rope_scaling", rope_scaling_of(file, keys)},
                   {"partial_rotary_factor",
                    partial_factor(keys.count("rope.dimension_count").value_or(head_dim), head_dim)},
                   {"sliding_window", sliding_window_of(keys)},
                   {"tie_word_embeddings", !has_output},
                   {"attention_bias", file.find_tensor("blk.0.attn_q.bias") != nullptr},
                   {"mlp_bias", file.find_tensor("blk.0.ffn_down.bias") != nullptr},
                   {"bos_token_id", std::move(bos)},
                   {"eos_token_id", ending_tokens(file, keys)},
                   {"torch_dtype", is_f32 ? "float32" : "bfloat16"}};
  if (is_gemma(family->family)) add_gemma(keys, family->family, head_dim, document);
  if (is_mixture(family->family)) add_experts(keys, document);
  return document;
}

bool ends_by_spelling(std::string_view token, std::string_view architecture) {
  const auto spellings = ending_spellings(architecture);
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
  for (const auto& [ours, theirs] : kModelTensors) {
    if (module == ours) return std::string(theirs) + suffix;
  }
  constexpr std::string_view kLayer = "blk.";
  const std::size_t number_end = module.find('.', kLayer.size());
  if (!module.starts_with(kLayer) || number_end == std::string_view::npos) return std::string(tensor);
  const std::string number(module.substr(kLayer.size(), number_end - kLayer.size()));
  module.remove_prefix(number_end + 1);
  const auto known_as = [&](std::string_view theirs) {
    return "model.layers." + number + "." + std::string(theirs) + suffix;
  };
  if (architecture == kGptOss && module == "attn_sinks") return "model.layers." + number + ".self_attn.sinks";
  for (const OtherName& other : kOtherNames) {
    if (architecture == other.architecture && module == other.ours) return known_as(other.theirs);
  }
  for (const auto& [ours, theirs] : kLayerTensors) {
    if (module == ours) return known_as(theirs);
  }
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
  // A vector of its own, without ".weight".
  if (architecture == kGptOss && module.ends_with(".sinks")) module += ".weight";
  const std::size_t suffix_at = module.rfind('.');
  if (suffix_at == std::string::npos) return "";
  const std::string suffix = module.substr(suffix_at);
  module.resize(suffix_at);
  for (const auto& [ours, theirs] : kModelTensors) {
    if (module == theirs) return std::string(ours) + suffix;
  }
  const std::size_t number_end = module.find('.', kLayers.size());
  if (!module.starts_with(kLayers) || number_end == std::string::npos) return "";
  const std::string number = module.substr(kLayers.size(), number_end - kLayers.size());
  module.erase(0, number_end + 1);
  if (const std::size_t at = module.find(kExperts); at != std::string::npos) {
    const std::size_t expert = at + kExperts.size();
    module.replace(expert, module.find('.', expert) - expert, "*");
  }
  const auto known_as = [&](std::string_view ours) {
    return "blk." + number + "." + std::string(ours) + suffix;
  };
  if (architecture == kGptOss && module == "self_attn.sinks") return known_as("attn_sinks");
  for (const OtherName& other : kOtherNames) {
    if (architecture == other.architecture && module == other.theirs) return known_as(other.ours);
  }
  for (const auto& [ours, theirs] : kLayerTensors) {
    if (module == theirs) return known_as(ours);
  }
  return "";
}

bool has_gguf_pairs(std::string_view architecture) {
  return std::find(kPaired.begin(), kPaired.end(), architecture) != kPaired.end();
}

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
