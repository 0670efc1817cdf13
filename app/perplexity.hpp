// SPDX-License-Identifier: Apache-2.0
// `troupe perplexity`: how well a model predicts a text, computed as a request is served,
// so that types of weights and devices can be compared by what they cost.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

#include "app/options/command_line.hpp"

namespace troupe {

// Tokens [begin, end) of a text, run on their own; those of [first_scored, end) count.
struct TextWindow {
  std::size_t begin = 0, end = 0;
  std::size_t first_scored = 0;
  bool operator==(const TextWindow&) const = default;
};

// Windows of at most `size` tokens, one every `stride`, up to the text's end. A token counts
// once, in the first window that has one before it. 2 <= size, 1 <= stride <= size.
std::vector<TextWindow> text_windows(std::size_t num_tokens, std::size_t size, std::size_t stride);

// The file --text names, or for "-" what `input` says. Throws UsageError where it is empty,
// std::runtime_error where it can't be read.
std::string text_of(const PerplexityCommand& command, std::istream& input);

}  // namespace troupe
