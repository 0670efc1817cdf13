// SPDX-License-Identifier: Apache-2.0
// How a GGUF file's byte-level tokenizer cuts text into words: a name of its own
// (tokenizer.ggml.pre) stands for regular expressions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct GgufWords {
  std::vector<std::string> expressions;  // applied one after the other to the pieces
  bool ignores_merges = false;           // a word that is a token is that token
  bool adds_bos = false;                 // where the file does not say
};

// Throws std::runtime_error if the name is not known. An empty one is "default".
GgufWords gguf_words(std::string_view name);

// The name of those expressions where merges are ignored so; empty: the format has none. Files state
// adds_bos.
std::string gguf_words_name(const std::vector<std::string>& expressions, bool ignores_merges);

}  // namespace troupe
