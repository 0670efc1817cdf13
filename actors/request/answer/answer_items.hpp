// SPDX-License-Identifier: Apache-2.0
// An answer as the items that clients of messages and responses see: reasoning,
// texts and calls, in the order in which the model wrote them. Streams, whole
// answers and the store are views of these, made from the same deltas that chats get.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "actors/request/prompt/tool_names.hpp"

namespace troupe {

struct AnswerItem {
  enum class Kind : std::uint8_t { kReasoning, kText, kCall };
  Kind kind = Kind::kText;
  std::string text = {};                 // of a call: its arguments, JSON as the model wrote it, or its input
  std::string id = {};                   // of a call
  std::string name = {};                 // of a call: its tool's
  std::string name_space = {};           // so, too; known by name_call()
  bool is_custom = false;                // so, too
  std::vector<AnswerToken> tokens = {};  // that came with it, if log-probabilities were asked for
};

// A call as its client names its tool: the model knows the shown name alone.
void name_call(AnswerItem& call, const ToolNames& names);
// The call is whole: no arguments are an empty object, those of a custom tool become its input.
void finish_call(AnswerItem& call);
// The other way round.
std::string custom_arguments(const std::string& input);

// The part of a delta that belongs to one item. Views of the delta.
struct AnswerPiece {
  AnswerItem::Kind kind = AnswerItem::Kind::kText;
  std::string_view text = {};
  const CallDelta* begun = nullptr;  // the call that begins with it
};

// A delta does not say how its parts follow each other. They do so: the rest of the
// call that was open, reasoning, text, calls that begin.
std::vector<AnswerPiece> pieces_of(const TextDelta& delta);

// One thread at a time. Items stay where they are when others are added.
class AnswerItems {
 public:
  AnswerItems() = default;
  explicit AnswerItems(std::deque<AnswerItem> items) : items_(std::move(items)) {}

  // The piece is not part of the last item.
  bool begins_item(const AnswerPiece& piece) const;
  void add(const AnswerPiece& piece);
  // Tokens of the last item, or of the first one if there is none yet.
  void add_tokens(std::span<const AnswerToken> tokens);
  void add(const TextDelta& delta);
  // Nothing follows: an answer of nothing is an empty text.
  void close();
  // All calls are whole.
  void name_calls(const ToolNames& names);

  const std::deque<AnswerItem>& all() const { return items_; }
  AnswerItem& last() { return items_.back(); }
  std::deque<AnswerItem> take() { return std::exchange(items_, {}); }

 private:
  std::deque<AnswerItem> items_;
  std::vector<AnswerToken> early_tokens_;  // before the first item
};

// The same answer as chats and completions have it: what is of one kind in one.
struct JoinedAnswer {
  std::string text = {};
  std::string reasoning = {};
  std::vector<CallDelta> calls = {};
  std::vector<AnswerToken> tokens = {};
};
JoinedAnswer joined(AnswerItems items);

}  // namespace troupe
