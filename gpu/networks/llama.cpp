// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/llama.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

std::string layer_prefix(std::uint32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

std::uint32_t query_width(const ModelConfig& config) { return config.num_heads * config.head_dim; }
std::uint32_t qkv_width(const ModelConfig& config) {
  return (config.num_heads + 2 * config.num_kv_heads) * config.head_dim;
}

// Appends tensors and operators to one program.
class ProgramWriter {
 public:
  ProgramWriter(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), compute_type_(compute_type) {
    program_.cell = "decoder_step";
    program_.shape = shape;
  }

  Program write() && {
    const TensorId x = temporary("x", DataType::kF32, config_.hidden_size);
    add(Embed{}, {weight("embedding", config_.vocabulary_size, config_.hidden_size)}, {x});
    std::optional<TensorId> residual;  // not yet added to x
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      residual = attention(layer, x, residual);
      residual = feed_forward(layer, x, *residual);
    }
    const TensorId rows =
        temporary("output_rows", DataType::kF32, config_.hidden_size, RowCount::kOutputRows);
    add(GatherRows{}, {x, *residual}, {rows});
    const TensorId normed =
        temporary("output_normed", compute_type_, config_.hidden_size, RowCount::kOutputRows);
    add(RmsNorm{config_.norm_epsilon}, {rows, weight("norm", 1, config_.hidden_size)}, {normed});
    const TensorId logits =
        temporary("logits", DataType::kF32, config_.vocabulary_size, RowCount::kOutputRows);
    add(Matmul{}, {normed, weight("lm_head", config_.vocabulary_size, config_.hidden_size)}, {logits});
    add(Sample{}, {logits}, {});
    return std::move(program_);
  }

 private:
  TensorId attention(std::uint32_t layer, TensorId x, std::optional<TensorId> residual) {
    const std::string prefix = layer_prefix(layer);
    const TensorId normed = norm(prefix + "input_norm", x, residual);
    const TensorId qkv = matmul(prefix + "qkv", normed, qkv_width(config_), config_.attention_bias);
    add(RotaryAppendKv{layer}, {qkv}, {});
    const TensorId attended = temporary(prefix + "attended", compute_type_, query_width(config_));
    add(PagedAttention{layer}, {qkv}, {attended});
    return matmul(prefix + "o", attended, config_.hidden_size, config_.attention_bias);
  }

  TensorId feed_forward(std::uint32_t layer, TensorId x, TensorId residual) {
    const std::string prefix = layer_prefix(layer);
    const TensorId normed = norm(prefix + "post_attention_norm", x, residual);
    const TensorId gate_up =
        matmul(prefix + "gate_up", normed, 2 * config_.intermediate_size, config_.mlp_bias);
    const TensorId h = temporary(prefix + "h", compute_type_, config_.intermediate_size);
    add(GatedActivation{}, {gate_up}, {h});
    return matmul(prefix + "down", h, config_.hidden_size, config_.mlp_bias);
  }

  TensorId norm(const std::string& weight_name, TensorId x, std::optional<TensorId> residual) {
    const TensorId normed = temporary(weight_name + "ed", compute_type_, config_.hidden_size);
    const TensorId scale = weight(weight_name, 1, config_.hidden_size);
    if (residual) {
      add(RmsNorm{config_.norm_epsilon}, {x, scale, *residual}, {normed, x});
    } else {
      add(RmsNorm{config_.norm_epsilon}, {x, scale}, {normed});
    }
    return normed;
  }

  TensorId matmul(const std::string& weight_name, TensorId a, std::uint32_t width, bool has_bias) {
    const std::uint32_t depth = program_.tensors[a].columns;
    const TensorId product = temporary(weight_name + "_product", DataType::kF32, width);
    std::vector<TensorId> inputs = {a, weight(weight_name, width, depth)};
    if (has_bias) inputs.push_back(weight(weight_name + "_bias", 1, width));
    add(Matmul{}, std::move(inputs), {product});
    return product;
  }

  TensorId temporary(std::string name, DataType type, std::uint32_t columns,
                     RowCount rows = RowCount::kTokens) {
    program_.tensors.push_back({.name = std::move(name), .type = type, .rows = rows, .columns = columns});
    return static_cast<TensorId>(program_.tensors.size() - 1);
  }

  // The type is the device's choice: it packs and converts weights.
  TensorId weight(std::string name, std::uint32_t rows, std::uint32_t columns) {
    program_.tensors.push_back({.name = std::move(name),
                                .type = compute_type_,
                                .role = TensorRole::kWeight,
                                .rows = RowCount::kFixed,
                                .fixed_rows = rows,
                                .columns = columns});
    return static_cast<TensorId>(program_.tensors.size() - 1);
  }

  void add(OperatorKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    program_.operators.push_back({kind, std::move(inputs), std::move(outputs)});
  }

  const ModelConfig& config_;
  DataType compute_type_;
  Program program_;
};

// One projection, or several stacked by rows: names are those of the files.
void add_projection(std::vector<WeightSpec>& specs, const std::string& name,
                    const std::vector<std::string>& modules, std::uint32_t rows, std::uint32_t columns,
                    bool has_bias) {
  WeightSpec matrix{.name = name, .sources = {}, .rows = rows, .columns = columns, .is_matrix = true};
  WeightSpec bias{.name = name + "_bias", .sources = {}, .rows = 1, .columns = rows};
  for (const auto& module : modules) {
    matrix.sources.push_back(module + ".weight");
    bias.sources.push_back(module + ".bias");
  }
  specs.push_back(std::move(matrix));
  if (has_bias) specs.push_back(std::move(bias));
}

}  // namespace

LlamaNetwork::LlamaNetwork(ModelConfig config) : config_(std::move(config)) {}

std::vector<WeightSpec> LlamaNetwork::weights() const {
  const std::uint32_t hidden = config_.hidden_size;
  std::vector<WeightSpec> specs;
  specs.push_back({.name = "embedding",
                   .sources = {"model.embed_tokens.weight"},
                   .rows = config_.vocabulary_size,
                   .columns = hidden});
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    specs.push_back({.name = prefix + "input_norm",
                     .sources = {prefix + "input_layernorm.weight"},
                     .rows = 1,
                     .columns = hidden});
    add_projection(specs, prefix + "qkv", {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                   qkv_width(config_), hidden, config_.attention_bias);
    add_projection(specs, prefix + "o", {attention + "o_proj"}, hidden, query_width(config_),
                   config_.attention_bias);
    specs.push_back({.name = prefix + "post_attention_norm",
                     .sources = {prefix + "post_attention_layernorm.weight"},
                     .rows = 1,
                     .columns = hidden});
    add_projection(specs, prefix + "gate_up", {mlp + "gate_proj", mlp + "up_proj"},
                   2 * config_.intermediate_size, hidden, config_.mlp_bias);
    add_projection(specs, prefix + "down", {mlp + "down_proj"}, hidden, config_.intermediate_size,
                   config_.mlp_bias);
  }
  specs.push_back({.name = "norm", .sources = {"model.norm.weight"}, .rows = 1, .columns = hidden});
  specs.push_back({.name = "lm_head",
                   .sources = {config_.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"},
                   .rows = config_.vocabulary_size,
                   .columns = hidden,
                   .is_matrix = true});
  return specs;
}

Program LlamaNetwork::build_program(const std::string& cell, ProgramShape shape,
                                    DataType compute_type) const {
  if (cell != "decoder_step") {
    throw std::runtime_error(config_.architecture + " has no cell \"" + cell + "\", only decoder_step");
  }
  if (compute_type == DataType::kI32) {
    throw std::runtime_error("a program computes in f32, f16 or bf16, not " +
                             std::string(name_of(compute_type)));
  }
  return ProgramWriter(config_, shape, compute_type).write();
}

}  // namespace troupe
