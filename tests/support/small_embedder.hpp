// SPDX-License-Identifier: Apache-2.0
// A model of vectors that takes no time: a BERT of random weights, with a tokenizer that knows
// all letters. Programs that use it link troupe_app.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "gpu/model/random_model.hpp"
#include "tests/text/tokenizer/bert_file.hpp"

namespace troupe::test {

inline constexpr std::uint32_t kEmbedderWidth = 96;
inline constexpr std::uint32_t kEmbedderContext = 64;  // tokens, [CLS] and [SEP] among them

// Creates the directory; its name is the model's. The same weights every time.
inline void write_small_embedder(const std::filesystem::path& directory) {
  const auto words = small_bert_words();
  ModelConfig config;
  config.architecture = "BertModel";
  config.hidden_size = kEmbedderWidth;
  config.intermediate_size = 160;
  config.num_layers = 3;
  config.num_heads = config.num_kv_heads = 3;
  config.head_dim = 32;
  config.vocabulary_size = static_cast<std::uint32_t>(words.size());
  config.context_length = kEmbedderContext;
  config.norm_epsilon = 1e-12F;
  config.encoder = EncoderConfig{};
  std::filesystem::create_directory(directory);
  write_random_bert(directory, config, 5);
  std::ofstream(directory / "tokenizer.json") << bert_file(words).dump();
}

}  // namespace troupe::test
