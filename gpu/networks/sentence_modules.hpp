// SPDX-License-Identifier: Apache-2.0
// modules.json and sentence_bert_config.json, as sentence-transformers writes them: the layers behind an
// encoder. Pooling makes one vector of a text's tokens, Normalize brings it to length 1. Other modules and
// poolings are refused by name. max_seq_length of the second file is read here, do_lower_case by
// load_tokenizer (text/tokenizer/tokenizer.hpp); all else in it says how transformers loads the files.
#pragma once

#include <cstdint>
#include <filesystem>

#include "gpu/operators/pooling_mode.hpp"

namespace troupe {

struct SentenceModules {
  PoolingMode pooling = PoolingMode::kMean;
  bool normalizes = true;        // vectors have length 1
  std::uint32_t max_tokens = 0;  // of an input, with special tokens (max_seq_length); 0: not said
};

// Without the file vectors are the mean of all tokens, of length 1: what makes sentences
// comparable, though a plain encoder was not trained for it. hidden_size: of the encoder.
// Throws std::runtime_error.
SentenceModules read_sentence_modules(const std::filesystem::path& model_dir, std::uint32_t hidden_size);

}  // namespace troupe
