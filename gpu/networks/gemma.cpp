// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/gemma.hpp"

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/networks/decoder_shapes.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

std::string layer_prefix(std::uint32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

// √width in the type in which the embeddings are multiplied by it.
float embedding_scale(std::uint32_t width, DataType type) {
  const int bits = type == DataType::kBF16 ? 8 : type == DataType::kF16 ? 11 : 24;
  int exponent = 0;
  const float fraction = std::frexp(std::sqrt(static_cast<float>(width)), &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

class GemmaProgram {
 public:
  GemmaProgram(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), gemma_(*config.gemma), writer_(shape, compute_type) {}

  Program write() && {
    x_ = writer_.temporary("x", DataType::kF32, config_.hidden_size);
    writer_.add(Embed{embedding_scale(config_.hidden_size, writer_.compute_type())},
                {writer_.weight("embedding", config_.vocabulary_size, config_.hidden_size)}, {x_});
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      attention(layer, layer_prefix(layer));
      if (layer == middle_layer(config_)) writer_.hand_out(x_);
      feed_forward(layer_prefix(layer));
    }
    sample();
    return std::move(writer_).take();
  }

 private:
  void attention(std::uint32_t layer, const std::string& prefix) {
    const TensorId normed = norm_before(prefix + "input_norm");
    const TensorId qkv = writer_.matmul(prefix + "qkv", normed, config_.qkv_width(), config_.attention_bias);
    if (config_.head_norms) {
      writer_.add(HeadNorm{config_.norm_epsilon},
                  {qkv, writer_.weight(prefix + "query_norm", 1, config_.head_dim),
                   writer_.weight(prefix + "key_norm", 1, config_.head_dim)},
                  {});
    }
    const bool slides = config_.is_sliding.at(layer);
    writer_.add(RotaryAppendKv{.layer = layer, .is_local = slides && gemma_.local_theta.has_value()}, {qkv},
                {});
    const TensorId attended =
        writer_.temporary(prefix + "attended", writer_.compute_type(), config_.query_width());
    writer_.add(PagedAttention{.layer = layer,
                               .window = slides ? config_.sliding_window : 0,
                               .scale = 1.0F / std::sqrt(gemma_.query_scalar),
                               .soft_cap = gemma_.attention_cap},
                {qkv}, {attended});
    norm_behind(prefix + "post_attention_norm",
                writer_.matmul(prefix + "o", attended, config_.hidden_size, config_.attention_bias));
  }

  void feed_forward(const std::string& prefix) {
    const std::uint32_t width = config_.intermediate_size;
    const TensorId normed = norm_before(prefix + "pre_feed_forward_norm");
    const TensorId gate_up = writer_.matmul(prefix + "gate_up", normed, 2 * width, false);
    const TensorId h = writer_.temporary(prefix + "h", writer_.compute_type(), width);
    writer_.add(GatedActivation{Activation::kGeluTanh}, {gate_up}, {h});
    norm_behind(prefix + "post_feed_forward_norm",
                writer_.matmul(prefix + "down", h, config_.hidden_size, false));
  }

  // Of x, to which what the block before gave is added first.
  TensorId norm_before(const std::string& name) {
    const TensorId normed = writer_.temporary(name + "ed", writer_.compute_type(), config_.hidden_size);
    std::vector<TensorId> inputs = {x_, writer_.weight(name, 1, config_.hidden_size)};
    std::vector<TensorId> outputs = {normed};
    if (residual_) {
      inputs.push_back(*residual_);
      outputs.push_back(x_);
    }
    writer_.add(RmsNorm{config_.norm_epsilon}, std::move(inputs), std::move(outputs));
    return normed;
  }

  // What is to be added to x.
  void norm_behind(const std::string& name, TensorId block) {
    residual_ = writer_.temporary(name + "ed", DataType::kF32, config_.hidden_size);
    writer_.add(RmsNorm{config_.norm_epsilon}, {block, writer_.weight(name, 1, config_.hidden_size)},
                {*residual_});
  }

  void sample() {
    const std::uint32_t hidden = config_.hidden_size;
    const TensorId rows = writer_.temporary("output_rows", DataType::kF32, hidden, RowCount::kOutputRows);
    writer_.add(GatherRows{}, {x_, *residual_}, {rows});
    const TensorId normed =
        writer_.temporary("output_normed", writer_.compute_type(), hidden, RowCount::kOutputRows);
    writer_.add(RmsNorm{config_.norm_epsilon}, {rows, writer_.weight("norm", 1, hidden)}, {normed});
    const TensorId logits = writer_.matmul("lm_head", normed, config_.vocabulary_size, false);
    if (gemma_.logit_cap != 0.0F) writer_.add(SoftCap{gemma_.logit_cap}, {logits}, {});
    writer_.add(Sample{}, {logits}, {});
  }

  const ModelConfig& config_;
  const GemmaConfig& gemma_;
  ProgramWriter writer_;
  TensorId x_ = 0;
  std::optional<TensorId> residual_;  // not yet added to x
};

}  // namespace

GemmaNetwork::GemmaNetwork(ModelConfig config) : config_(std::move(config)) {
  if (!config_.gemma) throw std::runtime_error("a Gemma's configuration lacks what only Gemma has");
}

ModelShapes GemmaNetwork::shapes() const {
  ModelShapes shapes = decoder_shapes(config_);
  if (!config_.gemma->local_theta) return shapes;
  shapes.local_rotary =
      RotaryParameters{.rotary_dim = config_.rotary_dim, .theta = *config_.gemma->local_theta};
  return shapes;
}

std::vector<CellType> GemmaNetwork::cells() const { return {{.name = "decoder_step"}}; }

Program GemmaNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  return GemmaProgram(config_, shape, compute_type).write();
}

std::vector<WeightSpec> GemmaNetwork::weights() const {
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const float added = config_.gemma->lacks_one ? 1.0F : 0.0F;
  const std::string embedding = "model.embed_tokens.weight";
  WeightList list;
  list.add_table("embedding", embedding, config_.vocabulary_size, hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = layer_prefix(layer), attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    const auto norm = [&](const char* name, const std::string& source, std::uint32_t width) {
      list.add_vector(prefix + name, {source + ".weight"}, width, added);
    };
    norm("input_norm", prefix + "input_layernorm", hidden);
    list.add_projection(prefix + "qkv", {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                        config_.qkv_width(), hidden, config_.attention_bias);
    if (config_.head_norms) norm("query_norm", attention + "q_norm", config_.head_dim);
    if (config_.head_norms) norm("key_norm", attention + "k_norm", config_.head_dim);
    list.add_projection(prefix + "o", {attention + "o_proj"}, hidden, config_.query_width(),
                        config_.attention_bias);
    norm("post_attention_norm", prefix + "post_attention_layernorm", hidden);
    norm("pre_feed_forward_norm", prefix + "pre_feedforward_layernorm", hidden);
    list.add_projection(prefix + "gate_up", {mlp + "gate_proj", mlp + "up_proj"}, 2 * inner, hidden, false);
    list.add_projection(prefix + "down", {mlp + "down_proj"}, hidden, inner, false);
    norm("post_feed_forward_norm", prefix + "post_feedforward_layernorm", hidden);
  }
  list.add_vector("norm", {"model.norm.weight"}, hidden, added);
  list.add_matrix("lm_head", {config_.tied_embeddings ? embedding : "lm_head.weight"},
                  config_.vocabulary_size, hidden);
  return std::move(list).take();
}

}  // namespace troupe
