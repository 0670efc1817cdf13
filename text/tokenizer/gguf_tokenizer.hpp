// SPDX-License-Identifier: Apache-2.0
// A tokenizer from the keys of a GGUF file. They are written as the tokenizer.json
// and tokenizer_config.json that say the same, so there is one tokenizer for both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// The keys tokenizer.ggml.*, by their names behind that.
struct GgufVocabulary {
  std::string model;                     // "gpt2": byte-level by merges, "llama": sentencepiece by scores
  std::string pre;                       // of "gpt2"; empty: absent
  std::vector<std::string> tokens;       // by id
  std::vector<double> scores;            // of "llama", one a token
  std::vector<std::int64_t> token_type;  // one a token, or none
  std::vector<std::string> merges;       // of "gpt2": "left right"
  std::optional<std::uint64_t> bos_token_id;
  std::optional<std::uint64_t> eos_token_id;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_space_prefix;  // of "llama"
  // tokenizer.huggingface.json: the whole tokenizer.json, which says more than the keys and is read in place
  // of them but for the ids above; empty: absent.
  std::string huggingface;
};

// Throws std::runtime_error with the reason.
std::unique_ptr<Tokenizer> make_gguf_tokenizer(const GgufVocabulary& vocabulary);

}  // namespace troupe
