// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/run_replay.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace troupe::loadgen {
namespace {

using TurnRecords = std::map<std::uint32_t, const RequestRecord*>;  // by turn
using ConversationRecords = std::map<std::uint64_t, TurnRecords>;   // by number

// max_tokens: of the record's class.
PlannedTurn turn_of(const RequestRecord& record, const RequestRecord* before, std::uint32_t max_tokens) {
  PlannedTurn turn;
  turn.prompt_tokens = record.prompt_tokens;
  if (before) {
    turn.think_time = std::max(RequestRecord::Time{0}, record.intended - before->finished);
    turn.kept_history = std::min({record.cached_tokens, before->prompt_tokens + before->output_tokens,
                                  std::max(record.prompt_tokens, 1U) - 1});
    turn.prompt_tokens -= *turn.kept_history;
  }
  turn.output_tokens = std::max(record.output_tokens, 1U);
  if (record.outcome == Outcome::kCancelled) {
    // Its length was never seen, but that it is more than came.
    turn.output_tokens = std::max(record.output_tokens + 1, max_tokens);
    if (record.error == kStoppedReading)
      turn.stops_reading_after = std::max(record.last_token, record.intended) - record.intended;
    else
      turn.cancelled_after = record.finished - record.intended;
  }
  return turn;
}

// A first turn's cached tokens came from other conversations: a template's words, a system text.
std::uint32_t head_of(const RequestRecord& first) {
  return std::min(first.cached_tokens, std::max(first.prompt_tokens, 1U) - 1);
}

struct FirstTurn {
  const RequestRecord* record = nullptr;
  std::uint32_t head = 0;  // tokens at its beginning that others have as well
};

// In order of time.
std::vector<FirstTurn> first_turns_of(const ConversationRecords& conversations) {
  std::vector<FirstTurn> first_turns;
  for (const auto& [number, turns] : conversations) {
    const RequestRecord* first = turns.begin()->second;
    first_turns.push_back({.record = first, .head = head_of(*first)});
  }
  std::stable_sort(first_turns.begin(), first_turns.end(), [](const FirstTurn& a, const FirstTurn& b) {
    return a.record->intended < b.record->intended;
  });
  return first_turns;
}

std::uint32_t least_head(const std::vector<FirstTurn>& first_turns) {
  std::uint32_t least = 0;
  for (const FirstTurn& first : first_turns)
    if (first.head > 0 && (least == 0 || first.head < least)) least = first.head;
  return least;
}

// The one that computed what the first turn at `found` found: the last one before it that may have.
void give_to_origin(std::vector<FirstTurn>& first_turns, std::size_t found) {
  const FirstTurn& finder = first_turns[found];
  for (std::size_t i = found; i-- > 0;) {
    FirstTurn& origin = first_turns[i];
    if (origin.head > 0 || origin.record->request_class != finder.record->request_class ||
        origin.record->prompt_tokens <= finder.head || origin.record->output_tokens == 0)
      continue;
    origin.head = finder.head;
    return;
  }
}

// By conversation. The one that put a text into the cache found nothing there, and has it all the same.
std::map<std::uint64_t, std::uint32_t> heads_of(std::vector<FirstTurn> first_turns) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> texts;  // class and length
  for (std::size_t i = 0; i < first_turns.size(); ++i) {
    const FirstTurn first = first_turns[i];
    if (first.head > 0 && texts.emplace(first.record->request_class, first.head).second)
      give_to_origin(first_turns, i);
  }
  std::map<std::uint64_t, std::uint32_t> heads;
  for (const FirstTurn& first : first_turns) heads[first.record->conversation] = first.head;
  return heads;
}

std::vector<PrefixBlock> blocks_of(std::uint32_t request_class, std::uint32_t head,
                                   std::uint32_t shared_by_all) {
  if (head == 0) return {};
  std::vector<PrefixBlock> blocks = {{.id = 0, .num_tokens = shared_by_all}};
  const std::uint64_t id = (std::uint64_t{request_class} + 1) << 32U | head;
  if (head > shared_by_all) blocks.push_back({.id = id, .num_tokens = head - shared_by_all});
  return blocks;
}

std::uint32_t max_tokens_of(const RunResult& result, const RequestRecord& record) {
  return record.request_class < result.classes.size() ? result.classes[record.request_class].max_tokens : 1;
}

}  // namespace

std::vector<PlannedConversation> conversations_of(const RunResult& result) {
  ConversationRecords by_conversation;
  for (const RequestRecord& record : result.records)
    by_conversation[record.conversation].emplace(record.turn, &record);
  const std::vector<FirstTurn> first_turns = first_turns_of(by_conversation);
  const std::uint32_t shared_by_all = least_head(first_turns);
  const auto heads = heads_of(first_turns);
  std::vector<PlannedConversation> conversations;
  for (const auto& [number, turns] : by_conversation) {
    PlannedConversation conversation;
    conversation.number = number;
    const RequestRecord* before = nullptr;
    for (const auto& [turn, record] : turns) {
      if (!before) conversation.start = record->intended;
      conversation.request_class = record->request_class;
      conversation.turns.push_back(turn_of(*record, before, max_tokens_of(result, *record)));
      before = record;
    }
    conversation.prefix = blocks_of(conversation.request_class, heads.at(number), shared_by_all);
    conversation.turns.front().prompt_tokens -= heads.at(number);
    conversations.push_back(std::move(conversation));
  }
  std::stable_sort(conversations.begin(), conversations.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return conversations;
}

ConversationList::ConversationList(std::vector<PlannedConversation> conversations)
    : conversations_(std::move(conversations)) {}

bool ConversationList::next(PlannedConversation& conversation) {
  if (next_ == conversations_.size()) return false;
  conversation = conversations_[next_++];
  return true;
}

}  // namespace troupe::loadgen
