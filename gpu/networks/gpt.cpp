// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/gpt.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/decoder_shapes.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

std::string layer_prefix(std::uint32_t layer) { return "layer." + std::to_string(layer) + "."; }

// x is f32; products read norms of it in the compute type.
class GptProgram {
 public:
  GptProgram(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), gpt_(*config.gpt), writer_(shape, compute_type) {}

  Program write() && {
    embed();
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string prefix = layer_prefix(layer);
      const TensorId attention_input = norm(prefix + "attention_norm", x_);
      if (layer == middle_layer(config_)) writer_.hand_out(x_);
      if (gpt_.is_parallel) {
        const TensorId input = gpt_.shares_norm ? attention_input : norm(prefix + "feed_forward_norm", x_);
        add(attention(layer, attention_input));
        add(feed_forward(prefix, input));
      } else {
        add(attention(layer, attention_input));
        add(feed_forward(prefix, norm(prefix + "feed_forward_norm", x_)));
      }
    }
    sample();
    return std::move(writer_).take();
  }

 private:
  void embed() {
    const std::uint32_t hidden = config_.hidden_size;
    x_ = writer_.temporary("x", DataType::kF32, hidden);
    const TensorId embedding = writer_.weight("embedding", config_.vocabulary_size, hidden);
    if (!gpt_.has_position_table) return writer_.add(Embed{}, {embedding}, {x_});
    const std::uint32_t num_positions = gpt_.first_position + config_.context_length;
    writer_.add(EmbedPositions{gpt_.first_position},
                {embedding, writer_.weight("positions", num_positions, hidden)}, {x_});
  }

  TensorId attention(std::uint32_t layer, TensorId input) {
    const std::string prefix = layer_prefix(layer);
    const TensorId qkv = writer_.matmul(prefix + "qkv", input, config_.qkv_width(), config_.attention_bias);
    writer_.add(RotaryAppendKv{.layer = layer, .rotates = !gpt_.has_position_table}, {qkv}, {});
    const TensorId attended =
        writer_.temporary(prefix + "attended", writer_.compute_type(), config_.query_width());
    PagedAttention operation{.layer = layer};
    if (gpt_.divides_by_layer) {
      const auto divisor = static_cast<float>(layer + 1);
      operation.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim)) / divisor;
    }
    writer_.add(operation, {qkv}, {attended});
    return writer_.matmul(prefix + "o", attended, config_.hidden_size, config_.attention_bias);
  }

  TensorId feed_forward(const std::string& prefix, TensorId input) {
    const std::uint32_t inner = config_.intermediate_size;
    const TensorId up = writer_.matmul(prefix + "up", input, inner, config_.mlp_bias);
    const TensorId h = writer_.temporary(prefix + "h", writer_.compute_type(), inner);
    writer_.add(Activate{gpt_.activation}, {up}, {h});
    return writer_.matmul(prefix + "down", h, config_.hidden_size, config_.mlp_bias);
  }

  void add(TensorId block) { writer_.add(Add{}, {x_, block}, {x_}); }

  // In the type that products read: the operator's first result is f32, its second another one.
  TensorId norm(const std::string& name, TensorId x, RowCount rows = RowCount::kTokens) {
    const std::uint32_t hidden = config_.hidden_size;
    std::vector<TensorId> outputs = {writer_.temporary(name + "ed", DataType::kF32, hidden, rows)};
    if (writer_.compute_type() != DataType::kF32)
      outputs.push_back(writer_.temporary(name + "ed_operand", writer_.compute_type(), hidden, rows));
    writer_.add(LayerNorm{config_.norm_epsilon},
                {x, writer_.weight(name, 1, hidden), writer_.weight(name + "_bias", 1, hidden)}, outputs);
    return outputs.back();
  }

  void sample() {
    const TensorId rows =
        writer_.temporary("output_rows", DataType::kF32, config_.hidden_size, RowCount::kOutputRows);
    writer_.add(GatherRows{}, {x_}, {rows});
    const TensorId normed = norm("norm", rows, RowCount::kOutputRows);
    writer_.add(Sample{}, {writer_.matmul("lm_head", normed, config_.vocabulary_size, gpt_.has_logit_bias)},
                {});
  }

  const ModelConfig& config_;
  const GptConfig& gpt_;
  ProgramWriter writer_;
  TensorId x_ = 0;
};

void set_order(const ModelConfig& config, const GptNames& names, WeightSpec& weight) {
  const bool is_qkv = weight.name.ends_with(".qkv") || weight.name.ends_with(".qkv_bias");
  if (weight.is_matrix && weight.name != "lm_head") weight.order = names.order;
  if (!is_qkv) return;
  weight.head_dim = config.head_dim;
  weight.paired_rows = names.paired_rows;
  if (names.qkv_order != FileOrder::kAsRead) weight.order = names.qkv_order;
}

std::vector<std::string> modules_of(const std::string& prefix, const std::vector<std::string>& names) {
  std::vector<std::string> modules;
  for (const std::string& name : names) modules.push_back(prefix + name);
  return modules;
}

}  // namespace

GptNetwork::GptNetwork(ModelConfig config, GptNames names)
    : config_(std::move(config)), names_(std::move(names)) {
  if (!config_.gpt) throw std::runtime_error("a GPT's configuration lacks what only GPT has");
}

ModelShapes GptNetwork::shapes() const { return decoder_shapes(config_); }

std::vector<CellType> GptNetwork::cells() const { return {{.name = "decoder_step"}}; }

Program GptNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  return GptProgram(config_, shape, compute_type).write();
}

std::vector<WeightSpec> GptNetwork::weights() const {
  const GptConfig& gpt = *config_.gpt;
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  WeightList list(names_.other_prefix);
  const auto add_norm = [&](const std::string& name, const std::string& module) {
    list.add_vector(name, {module + ".weight"}, hidden);
    list.add_vector(name + "_bias", {module + ".bias"}, hidden);
  };
  list.add_table("embedding", names_.embedding + ".weight", config_.vocabulary_size, hidden);
  if (gpt.has_position_table)
    list.add_table("positions", names_.positions + ".weight", gpt.first_position + config_.context_length,
                   hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    const std::string in_files = names_.layers + std::to_string(layer) + ".";
    add_norm(prefix + "attention_norm", in_files + names_.attention_norm);
    list.add_projection(prefix + "qkv", modules_of(in_files, names_.qkv), config_.qkv_width(), hidden,
                        config_.attention_bias);
    list.add_projection(prefix + "o", {in_files + names_.o}, hidden, config_.query_width(),
                        config_.attention_bias);
    if (!gpt.shares_norm) add_norm(prefix + "feed_forward_norm", in_files + names_.feed_forward_norm);
    list.add_projection(prefix + "up", {in_files + names_.up}, inner, hidden, config_.mlp_bias);
    list.add_projection(prefix + "down", {in_files + names_.down}, hidden, inner, config_.mlp_bias);
  }
  add_norm("norm", names_.norm);
  list.add_matrix("lm_head", {(config_.tied_embeddings ? names_.embedding : names_.lm_head) + ".weight"},
                  config_.vocabulary_size, hidden);
  if (gpt.has_logit_bias)
    list.add_vector("lm_head_bias", {names_.lm_head + ".bias"}, config_.vocabulary_size);
  std::vector<WeightSpec> weights = std::move(list).take();
  for (WeightSpec& weight : weights) set_order(config_, names_, weight);
  return weights;
}

std::vector<std::string> GptNetwork::layer_prefixes() const {
  return {names_.layers, names_.other_prefix + names_.layers};
}

}  // namespace troupe
