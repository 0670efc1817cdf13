// SPDX-License-Identifier: Apache-2.0
// Prompts that have a model write what stands between two texts: models of code are
// trained for it, each with tokens of its own around the texts. Which ones is known by
// their names in the vocabulary, alike in tokenizer.json and GGUF.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

//   before_prefix prefix before_suffix suffix middle ▸ answer
//   before_suffix suffix before_prefix prefix ▸ answer           comes_suffix_first
struct FillInFormat {
  std::string before_prefix, before_suffix;
  std::string middle;  // empty where the suffix comes first
  bool comes_suffix_first = false;
  std::vector<TokenId> end_tokens = {};  // end what is filled in, besides the model's own
};

// nullopt: the model has no tokens for it.
std::optional<FillInFormat> find_fill_in_format(const Tokenizer& tokenizer);

struct FillInText {
  std::string text;
  std::vector<TextRange> trusted;  // the format's tokens
};
FillInText fill_in_text(const FillInFormat& format, std::string_view prefix, std::string_view suffix);

}  // namespace troupe
