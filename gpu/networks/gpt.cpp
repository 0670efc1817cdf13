// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/gpt.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/networks/decoder_shapes.hpp"
#include "gpu/networks/program_writer.hpp"

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

}  // namespace troupe
