// SPDX-License-Identifier: Apache-2.0
// The "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json.
#pragma once

#include <vector>

#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/normalizer/normalizer.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"
#include "text/tokenizer/token_decoder.hpp"

namespace troupe {

struct PreTokenizerParts {
  std::vector<PreTokenizerStep> steps;
  bool is_byte_level = false;       // words are spelled in bytes, not in characters
  bool cuts_spelled_bytes = false;  // steps behind ByteLevel see what it has written
};

// All throw std::runtime_error naming what is not supported.
std::vector<NormalizerStep> read_normalizer(const TokenizerField& field);
PreTokenizerParts read_pre_tokenizer(const TokenizerField& field);
DecoderParts read_decoder(const TokenizerField& field);

}  // namespace troupe
