// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/run_replay.hpp"

#include <algorithm>
#include <map>
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

std::uint32_t least_head(const ConversationRecords& conversations) {
  std::uint32_t least = 0;
  for (const auto& [number, turns] : conversations) {
    const std::uint32_t head = head_of(*turns.begin()->second);
    if (head > 0 && (least == 0 || head < least)) least = head;
  }
  return least;
}

std::vector<PrefixBlock> blocks_of(const RequestRecord& first, std::uint32_t shared_by_all) {
  const std::uint32_t head = head_of(first);
  if (head == 0) return {};
  std::vector<PrefixBlock> blocks = {{.id = 0, .num_tokens = shared_by_all}};
  const std::uint64_t id = (std::uint64_t{first.request_class} + 1) << 32U | head;
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
  const std::uint32_t shared_by_all = least_head(by_conversation);
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
    const RequestRecord& first = *turns.begin()->second;
    conversation.prefix = blocks_of(first, shared_by_all);
    conversation.turns.front().prompt_tokens -= head_of(first);
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
