// SPDX-License-Identifier: Apache-2.0
#include "actors/conversation_prompt.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "actors/prompt_encoding.hpp"

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

ChatPrompt whole_prompt(const ConversationTurn& turn, const ChatPrompt& added,
                        const Conversation* conversation) {
  ChatPrompt prompt{.messages = {}, .add_generation_prompt = added.add_generation_prompt};
  if (!turn.instructions.empty()) prompt.messages.push_back({"system", turn.instructions});
  if (conversation != nullptr)
    for (const auto& message : conversation->messages)
      prompt.messages.push_back({message.role, message.content});
  prompt.messages.insert(prompt.messages.end(), added.messages.begin(), added.messages.end());
  return prompt;
}

// A text that no message contains, and that tokenizers and templates have no
// reason to change.
std::string unused_marker(const std::vector<ChatMessage>& messages) {
  for (std::size_t number = 0;; ++number) {
    std::string marker = "Marker" + std::to_string(number) + "End";
    const bool is_used = std::any_of(messages.begin(), messages.end(), [&](const auto& message) {
      return message.content.find(marker) != std::string::npos;
    });
    if (!is_used) return marker;
  }
}

// From the marker on; nullopt unless it is there just once, in one piece.
std::optional<std::vector<TemplatePiece>> from_marker(std::vector<TemplatePiece> pieces,
                                                      const std::string& marker) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto at = pieces[i].text.find(marker);
    if (at == std::string::npos) continue;
    if (found || pieces[i].text.find(marker, at + 1) != std::string::npos) return std::nullopt;
    found = i;
    pieces[i].text.erase(0, at);
  }
  if (!found) return std::nullopt;
  pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(*found));
  return pieces;
}

// What the template writes behind the last answer. The marker stands for that
// answer and is encoded with the rest, so that what a tokenizer does to the
// beginning of a text is done to the marker; its own tokens are cut off then.
std::optional<Tokens> encode_tail(const ServedModel& model, ChatPrompt prompt, std::size_t last_answer) {
  const auto marker = unused_marker(prompt.messages);
  prompt.messages[last_answer].content = marker;
  auto input = template_input(model);
  input.add_generation_prompt = prompt.add_generation_prompt;
  for (const auto& message : prompt.messages)
    input.messages.push_back(chat_message(message.role, message.content));
  auto rendered = model.chat_template->render(input);
  if (!std::holds_alternative<std::vector<TemplatePiece>>(rendered)) return std::nullopt;
  const auto tail = from_marker(std::get<0>(std::move(rendered)), marker);
  if (!tail) return std::nullopt;
  const auto& tokenizer = *model.tokenizer;
  const auto with_marker = encode_chat(tokenizer, *tail);
  const auto alone = encode_chat(tokenizer, {{.text = marker, .from_input = true}});
  const bool is_cut_clean =
      with_marker.size() >= alone.size() && std::equal(alone.begin(), alone.end(), with_marker.begin());
  if (!is_cut_clean) return std::nullopt;
  return Tokens(with_marker.begin() + static_cast<std::ptrdiff_t>(alone.size()), with_marker.end());
}

bool can_extend(const ServedModel& model, const ConversationTurn& turn, const Conversation* conversation) {
  return conversation != nullptr && model.chat_template != nullptr && !conversation->tokens.empty() &&
         conversation->vocabulary == model.vocabulary && conversation->instructions == turn.instructions;
}

}  // namespace

std::variant<EncodedPrompt, ApiError> encode_turn(const ServedModel& model, const ConversationTurn& turn,
                                                  const ChatPrompt& added, const Conversation* conversation) {
  const auto prompt = whole_prompt(turn, added, conversation);
  if (can_extend(model, turn, conversation)) {
    const auto last_answer = prompt.messages.size() - added.messages.size() - 1;
    if (const auto tail = encode_tail(model, prompt, last_answer)) {
      EncodedPrompt encoded{.tokens = conversation->tokens, .num_inherited = conversation->tokens.size()};
      encoded.tokens.insert(encoded.tokens.end(), tail->begin(), tail->end());
      return encoded;
    }
  }
  auto encoded = encode_messages(model, prompt);
  if (auto* error = std::get_if<ApiError>(&encoded)) return std::move(*error);
  return EncodedPrompt{.tokens = std::get<Tokens>(std::move(encoded)), .num_inherited = 0};
}

}  // namespace troupe
