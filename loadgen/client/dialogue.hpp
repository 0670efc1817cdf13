// SPDX-License-Identifier: Apache-2.0
// One planned conversation as it is being had: what was really answered so far
// becomes part of the next request. Pure: no network, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loadgen/client/http/completion_request.hpp"
#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

// The text of a turn, in front of the first one its conversation's prefix: words,
// or token ids if `ids` is set, which only kCompletions and conversations of one
// turn can have.
struct TurnPrompts {
  std::function<std::string(const PlannedConversation&, std::size_t turn)> words;
  std::function<std::vector<std::int32_t>(const PlannedConversation&, std::size_t turn)> ids;
};

class Dialogue {
 public:
  explicit Dialogue(PlannedConversation plan);

  const PlannedConversation& plan() const { return plan_; }
  std::size_t turn() const { return turn_; }  // the one to be had next
  const PlannedTurn& planned_turn() const { return plan_.turns[turn_]; }
  bool is_over() const { return turn_ == plan_.turns.size(); }

  // The body of the next turn's request; `common` gives model and sampling. To
  // be called once a turn. Throws std::runtime_error if ids can't be had.
  std::string next_body(Endpoint endpoint, SamplingFields common, const RequestClass& request_class,
                        const TurnPrompts& prompts, bool tells_lengths = false);
  // The turn was answered: on to the next one. response_id: the server's name for it, if
  // it keeps conversations.
  void add_answer(std::string text, std::string response_id = {});

 private:
  PlannedConversation plan_;
  std::size_t turn_ = 0;
  std::string response_id_;            // of the last answer
  std::vector<ChatMessage> messages_;  // system, then user and assistant by turns
};

// The answer that the turn wants, but for blanks around it.
bool is_right_answer(const PlannedTurn& turn, std::string_view text);

}  // namespace troupe::loadgen
