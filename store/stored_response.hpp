// SPDX-License-Identifier: Apache-2.0
// The part of an answered request that is kept so that it can be shown again and
// continued without its history being sent. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

// Calls, their results and reasoning have a role of their own, calls and results JSON as
// content: see actors/request/answer/stored_items.hpp.
struct StoredMessage {
  std::string role;
  std::string content;
  bool operator==(const StoredMessage&) const = default;
};

struct StoredResponse {
  std::string id = {};
  std::string previous = {};  // the response it continues; empty: none
  std::string tenant = {};
  std::int64_t created = 0;  // Unix seconds
  std::int64_t expires = 0;
  std::string model = {};
  std::string instructions = {};
  std::string settings = {};               // fields that the answer repeats, as JSON members
  std::vector<StoredMessage> input = {};   // messages that this request added
  std::string output = {};                 // the answer, if it is one text
  std::vector<StoredMessage> answer = {};  // its items, if it is anything else
  bool is_complete = true;                 // false: the answer met its token limit
  std::uint32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  // Prompt and answer as they were run, without the token that ended the answer.
  // If extends_previous, only those beyond the tokens of the previous response.
  std::uint64_t vocabulary = 0;  // which tokenizer's they are, and which tools are in front
  bool extends_previous = false;
  std::vector<std::int32_t> tokens = {};
  bool operator==(const StoredResponse&) const = default;
};

// All that led to a response, and the response itself.
struct Conversation {
  std::vector<StoredMessage> messages;  // oldest first; texts of answers have the role "assistant"
  std::string instructions;             // of the last response
  std::uint64_t vocabulary = 0;
  std::vector<std::int32_t> tokens;  // the last prompt and answer
};

}  // namespace troupe
