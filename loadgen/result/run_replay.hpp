// SPDX-License-Identifier: Apache-2.0
// A run as a plan: the conversations it had, with the times and lengths that
// really were, to be simulated or sent again. Lengths in tokens are then the
// server's, not the plan's estimate.
#pragma once

#include <vector>

#include "loadgen/result/run_result.hpp"
#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

// In order of their start. Turns that were not completed are tried with the
// output length 1 they at least had. Turns that their client cancelled have their class's
// max_tokens, or a token more than came, and are cancelled after the same time; where it
// stopped reading, it does so after the last token that it read. Think times are those between the end of a
// turn and the intended time of the next. A turn keeps the part of its history that the
// server found cached: answers come back as text, which may be other tokens.
// A first turn's cached tokens are those of a template or a system text. The least of them in the run are a
// head that all conversations share; the rest is shared by those of the same class that found as many cached,
// as system texts of different lengths are different ones. The last conversation of the class that began
// before them with nothing cached has the text, too, if its prompt is longer: one of them put it there.
// Equally long texts of one class are one here: the records do not tell them apart, so a cache that has to
// hold many of them looks emptier than it was. One text that was found at varying lengths, as of its pages
// some were gone, becomes several, each computed once: it looks fuller.
std::vector<PlannedConversation> conversations_of(const RunResult& result);

// Yields the conversations of a list once.
class ConversationList final : public ConversationSource {
 public:
  explicit ConversationList(std::vector<PlannedConversation> conversations);
  bool next(PlannedConversation& conversation) override;

 private:
  std::vector<PlannedConversation> conversations_;
  std::size_t next_ = 0;
};

}  // namespace troupe::loadgen
