// SPDX-License-Identifier: Apache-2.0
// Makes the prompts of a plan, which holds only lengths: as words, or as token
// ids for exact lengths. Equal prefix blocks become equal text in every
// conversation; everything else differs between conversations, seeds and turns,
// so that a prefix cache finds exactly what the plan shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/word_tree.hpp"

namespace troupe::loadgen {

// The ids that prompts may use: [first, end). Low ids are often special.
struct TokenRange {
  std::int32_t first = 0;
  std::int32_t end = 0;
};

// Any thread, also at once: it holds a number.
class PromptWriter {
 public:
  explicit PromptWriter(std::uint64_t seed) : seed_(seed) {}

  // The user's text of that turn; in the first, the prefix comes before it.
  // A turn with a text of its own says that. Otherwise words for about the
  // planned number of tokens: `tokens_per_word` (above 0) is the server's, as
  // its usage tells; about 1.3 for large vocabularies.
  //
  // Conversations without a common prefix differ in the first word. Tokenizers
  // that cut this word up may still see an equal first piece.
  std::string text(const PlannedConversation& conversation, std::size_t turn, double tokens_per_word) const;

  // Exactly as many words as planned, as the leaves of a tree in brackets; no prefix. shape is
  // not kNone.
  std::string tree(const PlannedConversation& conversation, std::size_t turn, TreeShape shape) const;

  // As text(), in token ids, exactly as many as planned; a turn's own text is
  // replaced. Conversations differ from the first token after their common
  // prefix on, if their numbers differ by less than the range holds.
  std::vector<std::int32_t> token_ids(const PlannedConversation& conversation, std::size_t turn,
                                      TokenRange range) const;

 private:
  std::uint64_t seed_;
};

}  // namespace troupe::loadgen
