// SPDX-License-Identifier: Apache-2.0
// The "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/tokenizer_fields.hpp"

namespace troupe {

struct PreTokenizerParts {
  std::vector<PreTokenizerStep> steps;
  bool is_byte_level = false;  // words are spelled in bytes, not in characters
};

struct DecoderParts {
  bool is_byte_level = false;
  bool has_byte_fallback = false;  // <0x0A> stands for a byte
  std::vector<std::pair<std::string, std::string>> replacements;
  std::size_t num_stripped_leading_spaces = 0;
};

// All throw std::runtime_error naming what is not supported.
std::vector<NormalizerStep> read_normalizer(const TokenizerField& field);
PreTokenizerParts read_pre_tokenizer(const TokenizerField& field);
DecoderParts read_decoder(const TokenizerField& field);

}  // namespace troupe
