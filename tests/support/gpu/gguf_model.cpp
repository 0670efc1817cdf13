// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/gguf_model.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "gpu/model/weights.hpp"
#include "gpu/networks/families/families.hpp"
#include "tests/support/file_text.hpp"

namespace troupe::test {
namespace {

using nlohmann::json;

std::string gguf_architecture(const ModelConfig& config) {
  return std::string(find_family(config.architecture)->gguf->name);
}

bool has_pairs(const ModelConfig& config) {
  return gguf_architecture(config) == "llama" || gguf_architecture(config) == "smollm3";
}

struct TensorShape {
  std::string name;
  std::vector<std::uint64_t> shape;
};

bool is_mixtral(const ModelConfig& config) { return config.architecture == "MixtralForCausalLM"; }

void add_experts(const ModelConfig& config, const std::string& layer, std::vector<TensorShape>& tensors) {
  const ExpertsConfig& experts = *config.experts;
  const std::uint64_t hidden = config.hidden_size, inner = experts.intermediate_size;
  const std::string mixture = layer + (is_mixtral(config) ? "block_sparse_moe." : "mlp.");
  const std::string router = mixture + (experts.has_bias ? "router" : "gate");
  tensors.push_back({router + ".weight", {experts.num_experts, hidden}});
  if (experts.has_bias) tensors.push_back({router + ".bias", {experts.num_experts}});
  for (const std::string part : {"gate", "down", "up"}) {
    static const std::map<std::string, std::string> kOfMixtral = {
        {"gate", "w1"}, {"down", "w2"}, {"up", "w3"}};
    const std::string module = is_mixtral(config) ? kOfMixtral.at(part) : part + "_proj";
    const bool is_down = part == "down";
    for (std::uint32_t i = 0; i < experts.num_experts; ++i)
      tensors.push_back({mixture + "experts." + std::to_string(i) + "." + module + ".weight",
                         {is_down ? hidden : inner, is_down ? inner : hidden}});
    for (std::uint32_t i = 0; experts.has_bias && i < experts.num_experts; ++i)
      tensors.push_back(
          {mixture + "experts." + std::to_string(i) + "." + module + ".bias", {is_down ? hidden : inner}});
  }
}

std::vector<TensorShape> llama_tensors(const ModelConfig& config) {
  const std::uint64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const std::uint64_t queries = std::uint64_t{config.num_heads} * config.head_dim;
  const std::uint64_t keys = std::uint64_t{config.num_kv_heads} * config.head_dim;
  std::vector<TensorShape> tensors = {{"model.embed_tokens.weight", {config.vocabulary_size, hidden}}};
  for (std::uint32_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    tensors.insert(tensors.end(), {{layer + "input_layernorm.weight", {hidden}},
                                   {layer + "self_attn.o_proj.weight", {hidden, queries}},
                                   {layer + "post_attention_layernorm.weight", {hidden}}});
    if (config.experts) {
      add_experts(config, layer, tensors);
    } else {
      tensors.push_back({layer + "mlp.down_proj.weight", {hidden, inner}});
    }
    if (config.fused_projections) {
      tensors.push_back({layer + "self_attn.qkv_proj.weight", {queries + 2 * keys, hidden}});
      tensors.push_back({layer + "mlp.gate_up_proj.weight", {2 * inner, hidden}});
    } else {
      tensors.insert(tensors.end(), {{layer + "self_attn.q_proj.weight", {queries, hidden}},
                                     {layer + "self_attn.k_proj.weight", {keys, hidden}},
                                     {layer + "self_attn.v_proj.weight", {keys, hidden}}});
    }
    if (!config.fused_projections && !config.experts) {
      tensors.push_back({layer + "mlp.gate_proj.weight", {inner, hidden}});
      tensors.push_back({layer + "mlp.up_proj.weight", {inner, hidden}});
    }
    if (config.gemma) {
      tensors.push_back({layer + "pre_feedforward_layernorm.weight", {hidden}});
      tensors.push_back({layer + "post_feedforward_layernorm.weight", {hidden}});
    }
    if (config.head_norms) {
      tensors.push_back({layer + "self_attn.q_norm.weight", {config.head_dim}});
      tensors.push_back({layer + "self_attn.k_norm.weight", {config.head_dim}});
    }
    if (config.attention_sinks) tensors.push_back({layer + "self_attn.sinks", {config.num_heads}});
    if (!config.attention_bias) continue;
    tensors.insert(tensors.end(), {{layer + "self_attn.q_proj.bias", {queries}},
                                   {layer + "self_attn.k_proj.bias", {keys}},
                                   {layer + "self_attn.v_proj.bias", {keys}}});
    if (!config.qkv_bias_only) tensors.push_back({layer + "self_attn.o_proj.bias", {hidden}});
  }
  tensors.push_back({"model.norm.weight", {hidden}});
  if (!config.tied_embeddings) tensors.push_back({"lm_head.weight", {config.vocabulary_size, hidden}});
  return tensors;
}

// Where the scales of a block are, in f16.
std::vector<std::size_t> scale_offsets(BlockFormat format) {
  switch (format) {
    case BlockFormat::kQ4_1:
    case BlockFormat::kQ5_1:
    case BlockFormat::kQ4_K:
    case BlockFormat::kQ5_K: return {0, 2};
    case BlockFormat::kQ6_K: return {208};
    default: return {0};
  }
}

// Any bytes but for the scales, which keep values near 0.1.
std::string random_blocks(BlockFormat format, std::size_t num_elements, std::mt19937& random) {
  const BlockLayout& layout = layout_of(format);
  std::string bytes;
  if (layout.plain) {
    std::normal_distribution<float> normal(0.0F, 0.1F);
    for (std::size_t i = 0; i < num_elements; ++i) {
      const float value = normal(random);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      if (format == BlockFormat::kF32) bytes += gguf_number(bits, 4);
      if (format == BlockFormat::kBF16) bytes += gguf_number(bits >> 16, 2);
      // f16 of 2^-6 to 2^-3 with any mantissa.
      if (format == BlockFormat::kF16) bytes += gguf_number((random() & 0x8FFF) | 0x2400, 2);
    }
    return bytes;
  }
  for (std::size_t block = 0; block < num_elements / layout.num_elements; ++block) {
    std::string one;
    for (std::size_t i = 0; i < layout.num_bytes; ++i) one += static_cast<char>(random());
    if (format == BlockFormat::kMxfp4) {
      one[0] = static_cast<char>(123 + random() % 3);
    } else {
      const std::uint32_t scale = layout.num_elements == 256 ? 0x0800 : 0x1000;  // 2^-13, 2^-11
      for (const auto at : scale_offsets(format))
        one.replace(at, 2, gguf_number(scale + random() % 0x400, 2));
    }
    bytes += one;
  }
  return bytes;
}

std::vector<float> opened(BlockFormat format, const std::string& bytes) {
  const BlockLayout& layout = layout_of(format);
  std::vector<float> values(bytes.size() / layout.num_bytes * layout.num_elements);
  dequantize(format, std::as_bytes(std::span(bytes)), values);
  return values;
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

void add_tokenizer_keys(GgufWriter& writer, const json& tokenizer, const json& config) {
  const json& vocabulary = tokenizer.at("model").at("vocab");
  std::vector<std::string> tokens(vocabulary.size());
  std::vector<std::string> types(vocabulary.size(), gguf_number(1, 4));
  for (const auto& [content, id] : vocabulary.items()) tokens.at(id) = content;
  for (const auto& added : tokenizer.at("added_tokens")) {
    const std::size_t id = added.at("id");
    if (id >= tokens.size()) tokens.resize(id + 1), types.resize(id + 1, gguf_number(5, 4));
    tokens[id] = added.at("content");
    types[id] = gguf_number(added.at("special").get<bool>() ? 3 : 4, 4);
  }
  std::vector<std::string> merges;
  for (const auto& merge : tokenizer.at("model").at("merges"))
    merges.push_back(merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  writer.add_text("tokenizer.ggml.model", "gpt2");
  writer.add_text("tokenizer.ggml.pre", "llama-bpe");
  writer.add_texts("tokenizer.ggml.tokens", tokens);
  writer.add_array("tokenizer.ggml.token_type", GgufType::kI32, types);
  writer.add_texts("tokenizer.ggml.merges", merges);
  writer.add_bool("tokenizer.ggml.add_bos_token", false);
  writer.add_text("tokenizer.chat_template", config.at("chat_template").get<std::string>());
}

}  // namespace

void write_plain_model(const std::filesystem::path& directory, const ModelConfig& config,
                       const std::vector<PlainTensor>& tensors) {
  std::filesystem::create_directories(directory);
  const std::uint32_t rotary_dim = config.rotary_dim == 0 ? config.head_dim : config.rotary_dim;
  const json window = config.sliding_window == 0 ? json(nullptr) : json(config.sliding_window);
  json document = {{"architectures", json::array({config.architecture})},
                   {"partial_rotary_factor", double{1} * rotary_dim / config.head_dim},
                   {"sliding_window", window},
                   {"hidden_size", config.hidden_size},
                   {"intermediate_size", config.intermediate_size},
                   {"num_hidden_layers", config.num_layers},
                   {"num_attention_heads", config.num_heads},
                   {"num_key_value_heads", config.num_kv_heads},
                   {"head_dim", config.head_dim},
                   {"vocab_size", config.vocabulary_size},
                   {"max_position_embeddings", config.context_length},
                   {"rms_norm_eps", config.norm_epsilon},
                   {"rope_theta", config.rope_theta},
                   {"attention_bias", config.attention_bias},
                   {"tie_word_embeddings", config.tied_embeddings}};
  if (config.experts) {
    document["num_experts"] = document["num_local_experts"] = config.experts->num_experts;
    document["num_experts_per_tok"] = config.experts->num_chosen;
    document["moe_intermediate_size"] = config.experts->intermediate_size;
    document["norm_topk_prob"] = true;
  }
  if (config.rope_scaling) {
    document["rope_scaling"] = {
        {"rope_type", config.rope_scaling->type},
        {"factor", config.rope_scaling->factor},
        {"truncate", config.rope_scaling->rounds_bounds},
        {"original_max_position_embeddings", config.rope_scaling->original_context_length}};
  }
  if (config.gemma) {
    const auto cap = [](float value) { return value == 0.0F ? json(nullptr) : json(value); };
    document["query_pre_attn_scalar"] = config.gemma->query_scalar;
    document["attn_logit_softcapping"] = cap(config.gemma->attention_cap);
    document["final_logit_softcapping"] = cap(config.gemma->logit_cap);
    if (config.gemma->local_theta) document["rope_local_base_freq"] = *config.gemma->local_theta;
  }
  write_file(directory / "config.json", document.dump());
  json header = json::object();
  std::string data;
  for (const auto& tensor : tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", json::array({begin, data.size()})}};
  }
  const std::string text = header.dump();
  write_file(directory / "model.safetensors", gguf_number(text.size(), 8) + text + data);
}

void add_llama_keys(GgufWriter& writer, const ModelConfig& config) {
  const std::string architecture = gguf_architecture(config);
  writer.add_text("general.architecture", architecture);
  writer.add(architecture + ".block_count", config.num_layers);
  writer.add(architecture + ".context_length", config.context_length);
  writer.add(architecture + ".embedding_length", config.hidden_size);
  writer.add(architecture + ".feed_forward_length", config.intermediate_size);
  writer.add(architecture + ".attention.head_count", config.num_heads);
  writer.add(architecture + ".attention.head_count_kv", config.num_kv_heads);
  writer.add(architecture + ".attention.key_length", config.head_dim);
  writer.add(architecture + ".attention.value_length", config.head_dim);
  writer.add(architecture + ".rope.dimension_count",
             config.rotary_dim == 0 ? config.head_dim : config.rotary_dim);
  if (config.sliding_window != 0)
    writer.add(architecture + ".attention.sliding_window", config.sliding_window);
  if (config.experts) {
    writer.add(architecture + ".expert_count", config.experts->num_experts);
    writer.add(architecture + ".expert_used_count", config.experts->num_chosen);
    writer.add(architecture + ".expert_feed_forward_length", config.experts->intermediate_size);
  }
  if (config.rope_scaling) {
    writer.add_text(architecture + ".rope.scaling.type", config.rope_scaling->type);
    writer.add_float(architecture + ".rope.scaling.factor", config.rope_scaling->factor);
    writer.add(architecture + ".rope.scaling.original_context_length",
               config.rope_scaling->original_context_length);
  }
  if (config.gemma) {
    if (config.gemma->attention_cap != 0.0F)
      writer.add_float(architecture + ".attn_logit_softcapping", config.gemma->attention_cap);
    if (config.gemma->logit_cap != 0.0F)
      writer.add_float(architecture + ".final_logit_softcapping", config.gemma->logit_cap);
    if (config.gemma->local_theta)
      writer.add_float(architecture + ".rope.freq_base_swa", *config.gemma->local_theta);
  }
  writer.add(architecture + ".vocab_size", config.vocabulary_size);
  writer.add_float(architecture + ".rope.freq_base", config.rope_theta);
  writer.add_float(architecture + ".attention.layer_norm_rms_epsilon", config.norm_epsilon);
}

std::string in_gguf_order(const std::string& rows, std::size_t num_rows, std::size_t head_dim) {
  const std::size_t row_bytes = rows.size() / num_rows;
  std::string ordered;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::size_t head = row / head_dim, r = row % head_dim;
    const std::size_t source = head * head_dim + (r % 2 == 0 ? r / 2 : head_dim / 2 + (r - 1) / 2);
    ordered.append(rows, source * row_bytes, row_bytes);
  }
  return ordered;
}

bool is_of_expert(const std::string& name) { return name.find(".experts.") != std::string::npos; }

std::string gguf_name(const std::string& name, const ModelConfig& config) {
  static const std::map<std::string, std::string> kNames = {{"model.embed_tokens", "token_embd"},
                                                            {"model.norm", "output_norm"},
                                                            {"lm_head", "output"},
                                                            {"input_layernorm", "attn_norm"},
                                                            {"self_attn.q_proj", "attn_q"},
                                                            {"self_attn.k_proj", "attn_k"},
                                                            {"self_attn.v_proj", "attn_v"},
                                                            {"self_attn.o_proj", "attn_output"},
                                                            {"self_attn.q_norm", "attn_q_norm"},
                                                            {"self_attn.k_norm", "attn_k_norm"},
                                                            {"self_attn.qkv_proj", "attn_qkv"},
                                                            {"mlp.gate_up_proj", "ffn_up"},
                                                            {"mlp.gate_proj", "ffn_gate"},
                                                            {"post_attention_layernorm", "ffn_norm"},
                                                            {"mlp.up_proj", "ffn_up"},
                                                            {"mlp.gate", "ffn_gate_inp"},
                                                            {"mlp.router", "ffn_gate_inp"},
                                                            {"block_sparse_moe.gate", "ffn_gate_inp"},
                                                            {"w1", "ffn_gate_exps"},
                                                            {"w2", "ffn_down_exps"},
                                                            {"w3", "ffn_up_exps"},
                                                            {"gate_proj", "ffn_gate_exps"},
                                                            {"down_proj", "ffn_down_exps"},
                                                            {"up_proj", "ffn_up_exps"},
                                                            {"mlp.down_proj", "ffn_down"}};
  const std::size_t dot = name.rfind('.');
  std::string module = name.substr(0, dot), prefix;
  const std::string layers = "model.layers.";
  if (module.starts_with(layers)) {
    const std::size_t end = module.find('.', layers.size());
    prefix = "blk." + module.substr(layers.size(), end - layers.size()) + ".";
    module = module.substr(end + 1);
  }
  if (is_of_expert(name)) module = module.substr(module.rfind('.') + 1);
  static const std::map<std::string, std::string> kOfGemma = {
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"}};
  if (module == "self_attn") return prefix + "attn_sinks.weight";
  if (config.attention_sinks && module == "post_attention_layernorm")
    return prefix + "post_attention_norm" + name.substr(dot);
  if (const auto found = kOfGemma.find(module); config.gemma && found != kOfGemma.end())
    return prefix + found->second + name.substr(dot);
  return prefix + kNames.at(module) + name.substr(dot);
}

namespace {

// A norm of Gemma: the file has v = 1 + w, rounded, and the directory w = v - 1, which is exact.
void split_norm(std::string& bytes, std::vector<float>& values) {
  bytes.clear();
  for (float& value : values) {
    const float sum = 1.0F + value;
    bytes += gguf_f32(sum);
    value = sum - 1.0F;
  }
}

}  // namespace

namespace {

// gpt-oss' directories: [experts, inputs, outputs], in which columns of gate and up take turns.
std::vector<PlainTensor> with_stacks(const std::vector<PlainTensor>& tensors, const ModelConfig& config) {
  std::vector<PlainTensor> others;
  std::map<std::string, PlainTensor> stacks;  // by name
  const std::uint64_t num_experts = config.experts->num_experts;
  for (const PlainTensor& tensor : tensors) {
    if (!is_of_expert(tensor.name)) {
      others.push_back(tensor);
      continue;
    }
    const std::size_t number_at = tensor.name.find(".experts.") + 9;
    const std::size_t part_at = tensor.name.find('.', number_at) + 1;
    const std::uint64_t expert = std::stoul(tensor.name.substr(number_at));
    const std::string part = tensor.name.substr(part_at, tensor.name.rfind('.') - part_at);
    const bool is_bias = tensor.name.ends_with(".bias"), is_down = part == "down_proj";
    const std::uint64_t rows = tensor.shape[0], columns = is_bias ? 1 : tensor.shape[1];
    const std::uint64_t step = is_down ? 1 : 2, first = part == "up_proj" ? 1 : 0;
    const std::string name = tensor.name.substr(0, number_at) + (is_down ? "down_proj" : "gate_up_proj") +
                             (is_bias ? "_bias" : "");
    PlainTensor& stack = stacks[name];
    stack.name = name;
    stack.shape = {num_experts, columns, step * rows};
    if (is_bias) stack.shape = {num_experts, step * rows};
    stack.values.resize(num_experts * columns * step * rows);
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t column = 0; column < columns; ++column)
        stack.values[(expert * columns + column) * step * rows + step * row + first] =
            tensor.values[row * columns + column];
  }
  for (auto& [name, stack] : stacks) others.push_back(std::move(stack));
  return others;
}

}  // namespace

bool is_rotated(const std::string& name) {
  return name.find(".q_proj") != std::string::npos || name.find(".k_proj") != std::string::npos;
}

void write_twins(const std::filesystem::path& gguf, const std::filesystem::path& directory,
                 const ModelConfig& config, BlockFormat format, std::uint32_t seed,
                 const FormatOf& format_of) {
  std::mt19937 random(seed);
  GgufWriter writer;
  add_llama_keys(writer, config);
  std::vector<PlainTensor> plain;
  std::string stack;  // of the experts' matrices that the last tensors were
  const std::string last_expert =
      ".experts." + std::to_string(config.experts ? config.experts->num_experts - 1 : 0) + ".";
  for (const auto& [name, shape] : llama_tensors(config)) {
    std::size_t count = 1;
    for (const auto dimension : shape) count *= dimension;
    const BlockFormat of_matrix = format_of ? format_of(name) : format;
    const BlockFormat of_tensor = shape.size() == 1 ? BlockFormat::kF32 : of_matrix;
    std::string bytes = random_blocks(of_tensor, count, random);
    std::vector<float> values = opened(of_tensor, bytes);
    if (config.gemma && name.ends_with("norm.weight")) split_norm(bytes, values);
    plain.push_back({name, shape, std::move(values)});
    if (is_of_expert(name)) {
      stack += bytes;
      if (name.find(last_expert) == std::string::npos) continue;
      std::vector<std::uint64_t> dimensions(shape.rbegin(), shape.rend());
      dimensions.push_back(config.experts->num_experts);
      writer.add_tensor(gguf_name(name, config), dimensions, of_tensor, std::exchange(stack, {}));
      continue;
    }
    writer.add_tensor(
        gguf_name(name, config), {shape.rbegin(), shape.rend()}, of_tensor,
        is_rotated(name) && has_pairs(config) ? in_gguf_order(bytes, shape[0], config.head_dim) : bytes);
  }
  write_file(gguf, writer.file());
  write_plain_model(directory, config, config.attention_sinks ? with_stacks(plain, config) : plain);
}

void convert_to_gguf(const std::filesystem::path& directory, const std::filesystem::path& gguf) {
  const ModelConfig config = load_model_config(directory);
  const WeightStore store(directory);
  GgufWriter writer;
  add_llama_keys(writer, config);
  add_tokenizer_keys(writer, json::parse(file_text(directory / "tokenizer.json")),
                     json::parse(file_text(directory / "tokenizer_config.json")));
  writer.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(config.eos_tokens.front()));
  writer.add_float("general.sampling.temp", 0.0F);
  for (const auto& [name, shape] : llama_tensors(config)) {
    const WeightView view = store.find(name);
    if (view.type != DataType::kBF16) throw std::runtime_error(name + " is not BF16");
    std::string bytes(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    if (is_rotated(name)) bytes = in_gguf_order(bytes, shape[0], config.head_dim);
    writer.add_tensor(gguf_name(name, config), {shape.rbegin(), shape.rend()}, BlockFormat::kBF16, bytes);
  }
  write_file(gguf, writer.file());
}

}  // namespace troupe::test
