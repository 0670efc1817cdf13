// SPDX-License-Identifier: Apache-2.0
// Writes a model of random weights in Hugging Face layout, for benchmarks and
// tests that need a shape and not a meaning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpu/model/model_config.hpp"

namespace troupe {

// A Llama of about 100 million parameters: width 768, 12 layers, 12 heads with
// 4 KV heads, 8192 tokens, tied embeddings.
ModelConfig llama_100m();

// Creates model_dir with config.json and model.safetensors (bf16); no
// tokenizer. Normally distributed weights, scaled so that activations keep
// their size through the layers; the same seed gives the same bytes.
// drawn_tokens: all others have a logit of 0, so at temperature 0 these alone
// are drawn; empty: any token. distinct_values: after so many, a tensor begins
// again, for large models whose speed alone is looked at; 0: it never does.
// Throws std::runtime_error if a file cannot be written, or if tokens are named
// and the embeddings are tied.
void write_random_llama(const std::filesystem::path& model_dir, const ModelConfig& config, std::uint64_t seed,
                        const std::vector<std::int32_t>& drawn_tokens = {},
                        std::uint64_t distinct_values = 0);

// The same for a BERT or a RoBERTa, in f32, with a classifier or without; without
// modules.json where pooling and normalizing are what they are without it.
void write_random_bert(const std::filesystem::path& model_dir, const ModelConfig& config, std::uint64_t seed);

}  // namespace troupe
