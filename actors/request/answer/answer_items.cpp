// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/answer_items.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using Kind = AnswerItem::Kind;

// Most answers have one text: it is moved, not copied.
void append(std::string& out, std::string text) {
  if (out.empty()) {
    out = std::move(text);
  } else {
    out += text;
  }
}

}  // namespace

void name_call(AnswerItem& call, const ToolNames& names) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const ToolName& name) { return name.shown == call.name; });
  if (found == names.end()) return;
  call.name = found->name;
  call.name_space = found->name_space;
  call.is_custom = found->is_custom;
}

// Arguments that are something else are handed on as they are.
void finish_call(AnswerItem& call) {
  if (!call.is_custom) {
    if (call.text.empty()) call.text = "{}";
    return;
  }
  const auto arguments = nlohmann::json::parse(call.text, nullptr, false);
  if (!arguments.is_object() || !arguments.contains(kCustomInput)) return;
  const auto& input = arguments[kCustomInput];
  if (input.is_string()) call.text = input.get<std::string>();
}

std::string custom_arguments(const std::string& input) {
  return nlohmann::json{{kCustomInput, input}}.dump();
}

std::vector<AnswerPiece> pieces_of(const TextDelta& delta) {
  std::vector<AnswerPiece> pieces;
  auto call = delta.calls.begin();
  for (; call != delta.calls.end() && call->name.empty(); ++call)
    pieces.push_back({.kind = Kind::kCall, .text = call->arguments});
  if (!delta.reasoning.empty()) pieces.push_back({.kind = Kind::kReasoning, .text = delta.reasoning});
  if (!delta.text.empty()) pieces.push_back({.kind = Kind::kText, .text = delta.text});
  for (; call != delta.calls.end(); ++call)
    pieces.push_back(
        {.kind = Kind::kCall, .text = call->arguments, .begun = call->name.empty() ? nullptr : &*call});
  return pieces;
}

bool AnswerItems::begins_item(const AnswerPiece& piece) const {
  return piece.begun != nullptr || items_.empty() || items_.back().kind != piece.kind;
}

void AnswerItems::add(const AnswerPiece& piece) {
  if (begins_item(piece)) {
    auto& item =
        items_.emplace_back(AnswerItem{.kind = piece.kind, .tokens = std::exchange(early_tokens_, {})});
    if (piece.begun != nullptr) {
      item.id = piece.begun->id;
      item.name = piece.begun->name;
    }
  }
  items_.back().text += piece.text;
}

void AnswerItems::add_tokens(std::span<const AnswerToken> tokens) {
  auto& to = items_.empty() ? early_tokens_ : items_.back().tokens;
  to.insert(to.end(), tokens.begin(), tokens.end());
}

void AnswerItems::add(const TextDelta& delta) {
  for (const AnswerPiece& piece : pieces_of(delta)) add(piece);
  add_tokens(delta.tokens);
}

void AnswerItems::close() {
  if (items_.empty()) add(AnswerPiece{});
}

void AnswerItems::name_calls(const ToolNames& names) {
  for (AnswerItem& item : items_) {
    if (item.kind != Kind::kCall) continue;
    name_call(item, names);
    finish_call(item);
  }
}

JoinedAnswer joined(AnswerItems items) {
  items.close();
  JoinedAnswer out;
  for (AnswerItem& item : items.take()) {
    switch (item.kind) {
      case Kind::kReasoning: append(out.reasoning, std::move(item.text)); break;
      case Kind::kText: append(out.text, std::move(item.text)); break;
      case Kind::kCall:
        out.calls.push_back({.index = static_cast<std::uint32_t>(out.calls.size()),
                             .id = std::move(item.id),
                             .name = std::move(item.name),
                             .arguments = std::move(item.text)});
    }
    std::move(item.tokens.begin(), item.tokens.end(), std::back_inserter(out.tokens));
  }
  return out;
}

}  // namespace troupe
