// SPDX-License-Identifier: Apache-2.0
// The text of an entry of the vocabulary: the "decoder" of a tokenizer.json,
// applied to one token at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

// A token is a word of its own, with a space in front, unless it begins with the prefix.
struct WordPieceDecoder {
  std::string continuing_prefix = "##";
  bool cleans_up = true;  // no space in front of punctuation
};

struct DecoderParts {
  bool is_byte_level = false;
  bool has_byte_fallback = false;  // <0x0A> stands for a byte
  std::vector<std::pair<std::string, std::string>> replacements;
  std::optional<WordPieceDecoder> word_pieces;
  std::string end_of_word;          // a space where a token has it; empty: none
  bool has_spaces_between = false;  // there is one in front of each token
  std::size_t num_stripped_leading_spaces = 0;
};

// Throws std::runtime_error where the replacements blow up the entry.
std::string decoded(const std::string& content, const DecoderParts& decoder);

}  // namespace troupe
