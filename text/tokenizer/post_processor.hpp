// SPDX-License-Identifier: Apache-2.0
// The "post_processor" of a tokenizer.json: special tokens around a text, or around and
// between two.
#pragma once

#include <optional>
#include <vector>

#include "text/token_id.hpp"
#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/model/token_table.hpp"
#include "text/tokenizer/pair_tokens.hpp"

namespace troupe {

struct EnclosingTokens {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
};

// Tokens put around a single text. `ids`: of the whole vocabulary. Throws
// std::runtime_error naming what is not supported.
EnclosingTokens read_post_processor(const TokenizerField& field, const TokenTable& ids);

// Tokens put around and between two texts; nullopt if the file does not say, or wants
// something else than the first text, then the second. Throws as read_post_processor().
std::optional<PairTokens> read_pair_processor(const TokenizerField& field, const TokenTable& ids);

}  // namespace troupe
