// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/translator.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/decoder_shapes.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

// Weights of a layer in programs.
std::string prefix_of(const char* half, std::uint32_t layer) {
  return std::string(half) + "." + std::to_string(layer) + ".";
}

std::uint32_t answer_vocabulary(const ModelConfig& config) {
  return config.vocabulary_size - config.translator->source_vocabulary;
}

// x is f32; products read it, or a norm of it, in the compute type: a.
class TranslatorProgram {
 public:
  TranslatorProgram(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), translator_(*config.translator), writer_(shape, compute_type) {}

  Program write_encoder() && {
    embed();
    for (std::uint32_t layer = 0; layer < translator_.num_encoder_layers; ++layer) {
      const std::string prefix = prefix_of("encoder", layer);
      add_block(prefix + "attention_norm", [&] { return whole_attention(prefix); });
      add_block(prefix + "feed_forward_norm",
                [&] { return feed_forward(prefix, translator_.encoder_intermediate_size); });
    }
    if (translator_.norms_first) a_ = norm("encoder_norm", x_);
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      const TensorId kv =
          writer_.matmul(prefix_of("decoder", layer) + "cross_kv", a_, 2 * config_.query_width(), true);
      writer_.add(RotaryAppendKv{.layer = layer, .rotates = false, .has_queries = false}, {kv}, {});
    }
    return std::move(writer_).take();
  }

  Program write_decoder() && {
    embed();
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string prefix = prefix_of("decoder", layer);
      add_block(prefix + "attention_norm", [&] { return own_attention(layer, prefix); });
      add_block(prefix + "cross_norm", [&] { return cross_attention(layer, prefix); });
      add_block(prefix + "feed_forward_norm",
                [&] { return feed_forward(prefix, config_.intermediate_size); });
    }
    sample();
    return std::move(writer_).take();
  }

 private:
  void embed() {
    x_ = writer_.temporary("x", DataType::kF32, config_.hidden_size);
    writer_.add(EmbedSinusoids{.scale = translator_.embedding_scale,
                               .first_position = translator_.first_position,
                               .ends_at_slowest = translator_.ends_at_slowest},
                {writer_.weight("embedding", config_.vocabulary_size, config_.hidden_size)}, {x_});
    if (!translator_.norms_first) a_ = rounded("embedded", x_);
  }

  // x = x + block(norm(x)), or norm(x + block(x)).
  template <class Block>
  void add_block(const std::string& norm_name, const Block& block) {
    if (translator_.norms_first) {
      a_ = norm(norm_name, x_);
      writer_.add(Add{}, {x_, block()}, {x_});
      return;
    }
    std::vector<TensorId> inputs = {block(), norm_weight(norm_name), norm_weight(norm_name + "_bias"), x_};
    a_ = operand(norm_name + "ed", x_, RowCount::kTokens);
    std::vector<TensorId> outputs = {x_};
    if (a_ != x_) outputs.push_back(a_);
    writer_.add(LayerNorm{config_.norm_epsilon}, std::move(inputs), std::move(outputs));
  }

  TensorId whole_attention(const std::string& prefix) {
    const TensorId qkv = writer_.matmul(prefix + "qkv", a_, config_.qkv_width(), true);
    const TensorId attended = attended_of(prefix + "attended");
    writer_.add(SelfAttention{}, {qkv}, {attended});
    return writer_.matmul(prefix + "o", attended, config_.hidden_size, true);
  }

  TensorId own_attention(std::uint32_t layer, const std::string& prefix) {
    const TensorId qkv = writer_.matmul(prefix + "qkv", a_, config_.qkv_width(), true);
    writer_.add(RotaryAppendKv{.layer = layer, .rotates = false}, {qkv}, {});
    const TensorId attended = attended_of(prefix + "attended");
    writer_.add(PagedAttention{.layer = layer, .part = AttendedPart::kAnswer}, {qkv}, {attended});
    return writer_.matmul(prefix + "o", attended, config_.hidden_size, true);
  }

  TensorId cross_attention(std::uint32_t layer, const std::string& prefix) {
    const TensorId queries = writer_.matmul(prefix + "cross_q", a_, config_.query_width(), true);
    const TensorId attended = attended_of(prefix + "cross_attended");
    writer_.add(PagedAttention{.layer = layer, .part = AttendedPart::kSource}, {queries}, {attended});
    return writer_.matmul(prefix + "cross_o", attended, config_.hidden_size, true);
  }

  TensorId feed_forward(const std::string& prefix, std::uint32_t inner) {
    const TensorId up = writer_.matmul(prefix + "up", a_, inner, true);
    const TensorId h = writer_.temporary(prefix + "h", writer_.compute_type(), inner);
    writer_.add(Activate{translator_.activation}, {up}, {h});
    return writer_.matmul(prefix + "down", h, config_.hidden_size, true);
  }

  void sample() {
    const TensorId rows =
        writer_.temporary("output_rows", DataType::kF32, config_.hidden_size, RowCount::kOutputRows);
    writer_.add(GatherRows{}, {x_}, {rows});
    const TensorId operand = translator_.norms_first ? norm("norm", rows, RowCount::kOutputRows)
                                                     : rounded("output", rows, RowCount::kOutputRows);
    writer_.add(Sample{},
                {writer_.matmul("lm_head", operand, answer_vocabulary(config_), translator_.has_logit_bias)},
                {});
  }

  TensorId norm_weight(const std::string& name) { return writer_.weight(name, 1, config_.hidden_size); }

  // In the type that products read: the operator's first result is f32, its second another one.
  TensorId norm(const std::string& name, TensorId x, RowCount rows = RowCount::kTokens) {
    std::vector<TensorId> outputs = {
        writer_.temporary(name + "ed", DataType::kF32, config_.hidden_size, rows)};
    if (writer_.compute_type() != DataType::kF32)
      outputs.push_back(operand(name + "ed_operand", outputs.front(), rows));
    writer_.add(LayerNorm{config_.norm_epsilon}, {x, norm_weight(name), norm_weight(name + "_bias")},
                outputs);
    return outputs.back();
  }

  TensorId attended_of(std::string name) {
    return writer_.temporary(std::move(name), writer_.compute_type(), config_.query_width());
  }

  // Where what is in f32 goes for a product to read it.
  TensorId operand(std::string name, TensorId in_f32, RowCount rows) {
    if (writer_.compute_type() == DataType::kF32) return in_f32;
    return writer_.temporary(std::move(name), writer_.compute_type(), config_.hidden_size, rows);
  }

  // The same, put there.
  TensorId rounded(std::string name, TensorId in_f32, RowCount rows = RowCount::kTokens) {
    const TensorId put = operand(std::move(name), in_f32, rows);
    if (put != in_f32) writer_.add(Activate{Activation::kNone}, {in_f32}, {put});
    return put;
  }

  const ModelConfig& config_;
  const TranslatorConfig& translator_;
  ProgramWriter writer_;
  TensorId x_ = 0;
  TensorId a_ = 0;
};

// Lists weights by the names that modules have in transformers.
class TranslatorWeights {
 public:
  explicit TranslatorWeights(const ModelConfig& config) : config_(config) {}

  std::vector<WeightSpec> list() && {
    const TranslatorConfig& translator = *config_.translator;
    add_embedding();
    for (std::uint32_t layer = 0; layer < translator.num_encoder_layers; ++layer)
      add_layer("encoder", layer, translator.encoder_intermediate_size);
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      add_layer("decoder", layer, config_.intermediate_size);
      add_cross_attention(layer);
    }
    if (translator.norms_first) {
      add_norm("encoder_norm", "model.encoder.layer_norm");
      add_norm("norm", "model.decoder.layer_norm");
    }
    list_.add_matrix("lm_head", {config_.tied_embeddings ? answer_embedding() : "lm_head.weight"},
                     answer_vocabulary(config_), config_.hidden_size);
    if (translator.has_logit_bias)
      list_.add_vector("lm_head_bias", {"final_logits_bias"}, answer_vocabulary(config_));
    return std::move(list_).take();
  }

 private:
  std::string answer_embedding() const {
    return config_.translator->source_vocabulary > 0 ? "model.decoder.embed_tokens.weight"
                                                     : "model.shared.weight";
  }

  void add_embedding() {
    std::vector<std::string> sources = {answer_embedding()};
    if (config_.translator->source_vocabulary > 0) sources.push_back("model.encoder.embed_tokens.weight");
    list_.add({.name = "embedding",
               .sources = std::move(sources),
               .rows = config_.vocabulary_size,
               .columns = config_.hidden_size,
               .is_table = true});
  }

  void add_layer(const char* half, std::uint32_t layer, std::uint32_t inner) {
    const std::string prefix = prefix_of(half, layer);
    const std::string in_files = "model." + std::string(half) + ".layers." + std::to_string(layer) + ".";
    const std::string attention = in_files + "self_attn.";
    const std::uint32_t hidden = config_.hidden_size;
    list_.add_projection(prefix + "qkv", {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                         config_.qkv_width(), hidden, true);
    list_.add_projection(prefix + "o", {attention + "out_proj"}, hidden, config_.query_width(), true);
    add_norm(prefix + "attention_norm", in_files + "self_attn_layer_norm");
    list_.add_projection(prefix + "up", {in_files + "fc1"}, inner, hidden, true);
    list_.add_projection(prefix + "down", {in_files + "fc2"}, hidden, inner, true);
    add_norm(prefix + "feed_forward_norm", in_files + "final_layer_norm");
  }

  void add_cross_attention(std::uint32_t layer) {
    const std::string prefix = prefix_of("decoder", layer);
    const std::string in_files = "model.decoder.layers." + std::to_string(layer) + ".encoder_attn";
    const std::uint32_t hidden = config_.hidden_size, query = config_.query_width();
    list_.add_projection(prefix + "cross_q", {in_files + ".q_proj"}, query, hidden, true);
    list_.add_projection(prefix + "cross_kv", {in_files + ".k_proj", in_files + ".v_proj"}, 2 * query, hidden,
                         true);
    list_.add_projection(prefix + "cross_o", {in_files + ".out_proj"}, hidden, query, true);
    add_norm(prefix + "cross_norm", in_files + "_layer_norm");
  }

  // Of which the bias is one too.
  void add_norm(const std::string& name, const std::string& module) {
    list_.add_vector(name, {module + ".weight"}, config_.hidden_size);
    list_.add_vector(name + "_bias", {module + ".bias"}, config_.hidden_size);
  }

  const ModelConfig& config_;
  WeightList list_;
};

}  // namespace

TranslatorNetwork::TranslatorNetwork(ModelConfig config) : config_(std::move(config)) {
  if (!config_.translator)
    throw std::runtime_error("the configuration lacks what only an encoder-decoder has");
}

ModelShapes TranslatorNetwork::shapes() const { return decoder_shapes(config_); }

std::vector<CellType> TranslatorNetwork::cells() const {
  return {{.name = "encoder_pass", .result = ResultKind::kState}, {.name = "decoder_step"}};
}

std::optional<SourceRule> TranslatorNetwork::source() const {
  return SourceRule{.source_end = config_.translator->source_end,
                    .answer_begins = config_.translator->answer_begins,
                    .max_source = config_.context_length / 2,
                    .max_answer = config_.context_length / 2};
}

std::vector<WeightSpec> TranslatorNetwork::weights() const { return TranslatorWeights(config_).list(); }

std::vector<std::string> TranslatorNetwork::layer_prefixes() const {
  return {"model.decoder.layers."};  // those of the encoder are counted by a field of their own
}

Program TranslatorNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  TranslatorProgram writer(config_, shape, compute_type);
  Program program = cell == kEncoder ? std::move(writer).write_encoder() : std::move(writer).write_decoder();
  program.cell = cell;
  return program;
}

}  // namespace troupe
