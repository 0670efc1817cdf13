// SPDX-License-Identifier: Apache-2.0
// Prompts of exactly the planned number of tokens, as the server's own tokenizer counts them: the
// words of a PromptWriter, fewer of them, and short ones behind them. Server templates add
// theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/client/prompt_writer.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe::loadgen {

// Any thread, also at once.
class ExactPrompts {
 public:
  // Throws std::runtime_error: the vocabulary has no short words that are one token each.
  ExactPrompts(PromptWriter writer, std::shared_ptr<const Tokenizer> tokenizer);

  // The user's text of that turn, as PromptWriter::text(), but exact: each prefix block by itself, and what
  // is new. A turn with a text of its own says that. Throws std::runtime_error: no text of that length was
  // found.
  std::string text(const PlannedConversation& conversation, std::size_t turn) const;

 private:
  std::string exact(std::string_view words, std::uint32_t num_tokens, bool is_first) const;
  std::uint32_t count(std::string_view text) const;

  PromptWriter writer_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> fillers_;  // words that are a token each behind a space
};

}  // namespace troupe::loadgen
