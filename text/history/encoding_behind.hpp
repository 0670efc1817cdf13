// SPDX-License-Identifier: Apache-2.0
// Encodes a text that stands behind tokens which are known already. A marker stands for
// the text of those: what a tokenizer does to the beginning of a text is done to the
// marker, whose own tokens are cut off then.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// A text that no client can guess, and that tokenizers and templates have no reason to
// change. Letters of both cases: a template that rewrites answers shows it. A digit before
// the end, so that the end is cut into tokens alike each time.
std::string draw_marker();

// `marked`: the marker, as a client's text, and what is behind it. nullopt where the tokenizer
// does not cut between them. num_before: tokens of the prompt in front. Throws
// EncodingStopped.
std::optional<std::vector<TokenId>> encode_behind_marker(const Tokenizer& tokenizer, std::string_view marker,
                                                         std::string_view marked,
                                                         std::span<const TextRange> trusted,
                                                         std::size_t num_before, EncodingBudget& budget);

}  // namespace troupe
