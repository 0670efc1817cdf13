// SPDX-License-Identifier: Apache-2.0
// Encodes a chat that came with its whole history. Where the rendered text begins as a
// remembered one did, it gets the tokens that were run then, and only the rest is
// encoded. The text decides, byte by byte: a template that now writes earlier messages
// otherwise (reasoning left out, another date, trimmed ends) gets remembered tokens up
// to where it does.
//
//   rendered:  question 1 │ answer 1 │ question 2 │ opening of the answer
//              └── remembered ──────┘└─ new part ┘└─ in front of the next answer ┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/history/rendered_text.hpp"
#include "text/history/turn_memory.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// An encoded prompt as it will be remembered with its answer.
struct PromptParts {
  std::shared_ptr<const RememberedText> before = {};  // was remembered already; may be null
  // Up to the end of the last message; none where the tokenizer does not cut there.
  std::optional<RememberedText> messages = {};
  RememberedText opening = {};  // the rest; its key is the last message's
};

struct PromptWithHistory {
  std::vector<TokenId> tokens;
  std::size_t num_remembered = 0;  // of tokens, the first
  PromptParts parts;
};

// keys: of the messages (message_chain.hpp), at least one. scope: what must be the same besides the text,
// the model and the cache's salt. Throws EncodingStopped.
PromptWithHistory encode_with_history(const Tokenizer& tokenizer, const RenderedText& rendered,
                                      std::span<const std::uint64_t> keys, const std::string& tenant,
                                      const std::string& scope, TurnMemory& memory, EncodingBudget& budget);

}  // namespace troupe
