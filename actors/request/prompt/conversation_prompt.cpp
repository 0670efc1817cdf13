// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/conversation_prompt.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "actors/request/answer/answer_splitting.hpp"
#include "actors/request/answer/stored_items.hpp"
#include "actors/request/prompt/prompt_encoding.hpp"
#include "text/history/encoding_behind.hpp"
#include "text/history/rendered_text.hpp"
#include "text/stable_hash.hpp"

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

ChatPrompt whole_prompt(const ConversationTurn& turn, const ChatPrompt& added,
                        const Conversation* conversation) {
  ChatPrompt prompt{.messages = {},
                    .add_generation_prompt = added.add_generation_prompt,
                    .tools = added.tools,
                    .splits_answer = added.splits_answer,
                    .allows_calls = added.allows_calls,
                    .thinks = added.thinks};
  if (!turn.instructions.empty()) prompt.messages.push_back({"system", turn.instructions});
  if (conversation != nullptr)
    for (const auto& message : conversation->messages) append_message(prompt.messages, message);
  prompt.messages.insert(prompt.messages.end(), added.messages.begin(), added.messages.end());
  return prompt;
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

// The tokens of the template's text behind the last answer; the marker stands for that answer.
std::optional<Tokens> encode_tail(const ServedModel& model, ChatPrompt prompt, std::size_t last_answer,
                                  std::size_t num_inherited, EncodingBudget& budget) {
  const auto marker = draw_marker();
  prompt.messages[last_answer].content = marker;
  prompt = in_shown_roles(model, std::move(prompt));
  auto rendered = model.chat_template->render(template_input(model, prompt), budget);
  if (!std::holds_alternative<std::vector<TemplatePiece>>(rendered)) return std::nullopt;
  const auto tail = from_marker(std::get<0>(std::move(rendered)), marker);
  if (!tail) return std::nullopt;
  const auto marked = join_pieces(*tail);
  return encode_behind_marker(*model.tokenizer, marker, marked.text, marked.trusted, num_inherited, budget);
}

// The template writes calls in its own way, and an answer may have ended within their markers.
bool ends_with_calls(const std::vector<StoredMessage>& messages) {
  for (auto item = messages.rbegin(); item != messages.rend(); ++item) {
    if (item->role == kFunctionCall || item->role == kCustomToolCall) return true;
    if (item->role != "assistant" && item->role != kReasoningItem) return false;
  }
  return false;
}

bool can_extend(const ServedModel& model, const ConversationTurn& turn, const ChatPrompt& added,
                const Conversation* conversation) {
  return conversation != nullptr && model.chat_template != nullptr && !conversation->tokens.empty() &&
         conversation->vocabulary == tokens_origin(model, added) &&
         conversation->instructions == turn.instructions && !ends_with_calls(conversation->messages);
}

bool begins_with(const Tokens& tokens, const Tokens& beginning) {
  return tokens.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

}  // namespace

std::uint64_t tokens_origin(const ServedModel& model, const ChatPrompt& prompt) {
  if (model.chat_template == nullptr) return model.vocabulary;
  const auto& dialect = model.chat_template->tool_dialect();
  // A template that knows neither tools nor calls has a text that tells of them in front.
  const bool shows_tools = gives_tools(model, prompt) || (!dialect.shows_calls && prompt.allows_calls);
  std::uint64_t origin = model.vocabulary;
  if (shows_tools && !prompt.tools.empty()) origin = stable_hash(prompt.tools, origin);
  if (prompt.thinks && !model.chat_template->thinking_switch().empty())
    origin = stable_hash(*prompt.thinks ? "thinks" : "does not think", origin);
  return origin;
}

std::variant<EncodedPrompt, ApiError> encode_turn(const ServedModel& model, const GenerationRequest& request,
                                                  const Conversation* conversation, const PromptTerms& terms,
                                                  EncodingBudget& budget) {
  const auto& added = std::get<ChatPrompt>(request.prompt);
  auto prompt = whole_prompt(*request.turn, added, conversation);
  if (needs_tools_text(model, prompt, terms.limits)) prompt = with_tools_text(std::move(prompt));
  if (!can_extend(model, *request.turn, added, conversation))
    return encode_messages(model, prompt, request, terms, budget);
  const auto num_before = prompt.messages.size() - added.messages.size();
  if (remembers_messages(model, prompt, num_before, request, terms)) {
    auto encoded = encode_messages(model, prompt, request, terms, budget);
    auto* known = std::get_if<EncodedPrompt>(&encoded);
    if (known != nullptr && begins_with(known->tokens, conversation->tokens)) {
      known->num_inherited = conversation->tokens.size();
      return encoded;
    }
  }
  if (const auto tail = encode_tail(model, prompt, num_before - 1, conversation->tokens.size(), budget)) {
    EncodedPrompt encoded{.tokens = conversation->tokens, .num_inherited = conversation->tokens.size()};
    encoded.tokens.insert(encoded.tokens.end(), tail->begin(), tail->end());
    return encoded;
  }
  return encode_messages(model, prompt, request, terms, budget);
}

}  // namespace troupe
