// SPDX-License-Identifier: Apache-2.0
// Names of the tensors of encoders in their files, by family: the same network is spelled
// in several ways.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/model/model_config.hpp"

namespace troupe {

// Modules of one layer, each with .weight and .bias.
struct EncoderLayerNames {
  std::string query, key, value, attention_output, attention_norm, up, down, output_norm;
};

struct EncoderNames {
  std::string other_prefix;  // in front of all but the classifier, of checkpoints of more than the encoder
  std::string layers;        // in front of a layer's number
  std::string head_dense;    // of classifiers: between the first token and the labels
  std::string classifier;
};

EncoderNames encoder_names(EncoderFamily family);

// layer: of those that have weights of their own; ALBERT's layers share num_groups x
// layers_a_group.
EncoderLayerNames encoder_layer_names(const EncoderConfig& encoder, std::uint32_t layer);

}  // namespace troupe
