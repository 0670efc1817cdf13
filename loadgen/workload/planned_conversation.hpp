// SPDX-License-Identifier: Apache-2.0
// The plan of a load experiment, made before anything is sent: the common
// language of workloads (which make it), the client and the simulator (which
// play it). A lone request is a conversation of one turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/workload/word_tree.hpp"

namespace troupe::loadgen {

// The leading tokens of a prompt that others may have too: equal ids stand for
// equal tokens. Blocks of a prompt follow one another.
struct PrefixBlock {
  std::uint64_t id = 0;
  std::uint32_t num_tokens = 0;
};

struct PlannedTurn {
  // From the end of the turn before; the first turn's in closed loop: from the
  // end of the same user's conversation before. Otherwise 0 for the first.
  std::chrono::nanoseconds think_time{0};
  std::uint32_t prompt_tokens = 0;  // new ones: without prefix blocks and history
  std::uint32_t output_tokens = 0;  // 0: until the model ends, at most the class's limit
  std::string text = {};            // empty: synthesized, prompt_tokens long
  std::string answer = {};          // the right one, to be compared; empty: any
  std::uint32_t answer_tokens = 0;  // of the right one, its end included; 0: not known
  // Simulated replays only: so many leading tokens of the conversation so far
  // are sent again; what a server made of the rest, it did not get back. None: all.
  std::optional<std::uint32_t> kept_history = std::nullopt;
  // From the intended time: its client hangs up; it stops reading, until it hangs up or the
  // server does.
  std::optional<std::chrono::nanoseconds> cancelled_after = std::nullopt;
  std::optional<std::chrono::nanoseconds> stops_reading_after = std::nullopt;
};

struct PlannedConversation {
  std::uint64_t number = 0;           // from 0, in the order of the plan
  std::uint32_t request_class = 0;    // index into the workload's classes
  std::chrono::nanoseconds start{0};  // intended, from the begin of the run; closed loop: 0
  std::string system_text;            // the system message; empty: none
  std::vector<PrefixBlock> prefix;    // in front of the first turn's prompt
  std::vector<PlannedTurn> turns;     // never empty
};

// Promises to keep, each optional (0: none); a request that misses one does not
// count as good.
struct Objectives {
  std::chrono::nanoseconds time_to_first_token{0};
  std::chrono::nanoseconds time_per_output_token{0};
  std::chrono::nanoseconds end_to_end{0};
};

struct RequestClass {
  std::string name = "default";
  Objectives objectives = {};
  bool ignore_eos = false;         // exact output lengths
  std::uint32_t max_tokens = 256;  // where a turn says nothing
  // The max_tokens that requests name: answers of planned lengths end by themselves
  // before it. 0: they name the planned length.
  std::uint32_t asked_tokens = 0;
  // Not kNone: a prompt's words are the leaves of a tree to be classified, and none is drawn.
  TreeShape trees = TreeShape::kNone;
};

// Yields conversations in order of their intended start. The same seed yields
// the same plan. One thread.
class ConversationSource {
 public:
  virtual ~ConversationSource() = default;
  // False when there are no more. Throws std::runtime_error where the plan comes
  // from a file and that makes no sense: what was expected, file and line.
  virtual bool next(PlannedConversation& conversation) = 0;
  // Warnings about the plan so far: lines of a trace left out, …
  virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace troupe::loadgen
