// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/encoder_names.hpp"

namespace troupe {
namespace {

EncoderLayerNames bert_layer(const std::string& layer) {
  return {.query = layer + "attention.self.query",
          .key = layer + "attention.self.key",
          .value = layer + "attention.self.value",
          .attention_output = layer + "attention.output.dense",
          .attention_norm = layer + "attention.output.LayerNorm",
          .up = layer + "intermediate.dense",
          .down = layer + "output.dense",
          .output_norm = layer + "output.LayerNorm"};
}

EncoderLayerNames distilbert_layer(const std::string& layer) {
  return {.query = layer + "attention.q_lin",
          .key = layer + "attention.k_lin",
          .value = layer + "attention.v_lin",
          .attention_output = layer + "attention.out_lin",
          .attention_norm = layer + "sa_layer_norm",
          .up = layer + "ffn.lin1",
          .down = layer + "ffn.lin2",
          .output_norm = layer + "output_layer_norm"};
}

EncoderLayerNames albert_layer(const std::string& layer) {
  return {.query = layer + "attention.query",
          .key = layer + "attention.key",
          .value = layer + "attention.value",
          .attention_output = layer + "attention.dense",
          .attention_norm = layer + "attention.LayerNorm",
          .up = layer + "ffn",
          .down = layer + "ffn_output",
          .output_norm = layer + "full_layer_layer_norm"};
}

}  // namespace

EncoderNames encoder_names(EncoderFamily family) {
  switch (family) {
    case EncoderFamily::kBert: return {"bert.", "encoder.layer.", "pooler.dense", "classifier"};
    case EncoderFamily::kRoberta:
      return {"roberta.", "encoder.layer.", "classifier.dense", "classifier.out_proj"};
    case EncoderFamily::kDistilBert:
      return {"distilbert.", "transformer.layer.", "pre_classifier", "classifier"};
    case EncoderFamily::kAlbert: return {"albert.", "encoder.albert_layer_groups.", "pooler", "classifier"};
  }
  return {};
}

EncoderLayerNames encoder_layer_names(const EncoderConfig& encoder, std::uint32_t layer) {
  const std::string layers = encoder_names(encoder.family).layers;
  if (encoder.family == EncoderFamily::kAlbert)
    return albert_layer(layers + std::to_string(layer / encoder.layers_a_group) + ".albert_layers." +
                        std::to_string(layer % encoder.layers_a_group) + ".");
  const std::string prefix = layers + std::to_string(layer) + ".";
  return encoder.family == EncoderFamily::kDistilBert ? distilbert_layer(prefix) : bert_layer(prefix);
}

}  // namespace troupe
