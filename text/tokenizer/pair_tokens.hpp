// SPDX-License-Identifier: Apache-2.0
// Two texts as one input of an encoder: [CLS] first [SEP] second [SEP].
#pragma once

#include <cstddef>
#include <vector>

#include "text/token_id.hpp"

namespace troupe {

// The tokens around and between two texts.
struct PairTokens {
  std::vector<TokenId> prefix, middle, suffix;
  bool has_types = false;  // tokens from the second text on are of type 1
  std::size_t count() const { return prefix.size() + middle.size() + suffix.size(); }
};

struct EncodedPair {
  std::vector<TokenId> tokens;
  std::size_t second_text = 0;  // the first token of type 1; 0: all are of type 0
};

}  // namespace troupe
