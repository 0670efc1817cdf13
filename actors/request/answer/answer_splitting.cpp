// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/answer_splitting.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "text/answer/call_grammar.hpp"

namespace troupe {
namespace {

constexpr std::size_t kPromptEnd = 32;          // tokens, of which a marker has fewer
constexpr std::size_t kShortestMarker = 4;      // bytes; shorter ones are words of any text
constexpr std::size_t kCallIdDigits = 20;       // of the request's id
constexpr std::size_t kBytesAContextToken = 2;  // of tools: about half of the context

// The prompt's last tokens as the template wrote them, without white space at the end.
std::string end_of_prompt(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt) {
  std::string text;
  const auto begin = prompt.end() - static_cast<std::ptrdiff_t>(std::min(prompt.size(), kPromptEnd));
  for (auto token = begin; token != prompt.end(); ++token)
    text += tokenizer.is_special(*token) ? tokenizer.token_content(*token) : tokenizer.token_bytes(*token);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// "call_", or of messages "toolu_", digits of the request's id, and later the number of the call.
std::string call_ids_of(const std::string& request_id) {
  const auto begin = request_id.find_first_of("-_");
  const std::string digits = request_id.substr(begin == std::string::npos ? 0 : begin + 1);
  const auto choice = digits.find_first_of("-_");  // of several: "-1"
  const std::string of_choice = choice == std::string::npos ? "" : digits.substr(choice + 1) + "x";
  const std::string prefix = request_id.starts_with("msg_") ? "toolu_" : "call_";
  return prefix + digits.substr(0, std::min(choice, kCallIdDigits)) + of_choice;
}

}  // namespace

std::optional<AnswerReading> answer_reading(const ServedModel& model, const GenerationRequest& request,
                                            const std::vector<std::int32_t>& prompt) {
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr || !chat->splits_answer || !model.chat_template) return std::nullopt;
  if (request.form) return std::nullopt;  // all of it has that form
  const auto& format = model.chat_template->answer_format();
  const bool reads_calls = chat->allows_calls && !chat->tools.empty() && format.calls;
  if (!reads_calls && !format.reasoning.exists()) return std::nullopt;
  const auto& begin = format.reasoning.begin;
  const bool begins_in_reasoning =
      format.reasoning.exists() && !begin.empty() && end_of_prompt(*model.tokenizer, prompt).ends_with(begin);
  return AnswerReading{.format = format,
                       .reads_calls = reads_calls,
                       .takes_one_call = chat->takes_one_call,
                       .begins_in_reasoning = begins_in_reasoning,
                       .tools = chat->callable_tools.empty() ? chat->tools : chat->callable_tools,
                       .call_ids = call_ids_of(request.id)};
}

bool binds_calls(const ServedModel& model, const GenerationRequest& request) {
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr || chat->tools.empty() || !chat->allows_calls || request.form) return false;
  if (chat->demands_call) return true;
  const bool is_wanted = chat->splits_answer && !request.ignore_eos && request.min_tokens == 0;
  return is_wanted && model.chat_template && can_bind_text(model.chat_template->answer_format());
}

std::optional<TokenId> forbidden_token(const ServedModel& model, const GenerationRequest& request) {
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr || chat->allows_calls || chat->tools.empty() || request.form || !model.chat_template)
    return std::nullopt;
  const auto& format = model.chat_template->answer_format();
  if (!format.calls || format.is_harmony()) return std::nullopt;
  const auto& calls = *format.calls;
  const auto& marker = calls.section_begin.empty() ? calls.call_begin : calls.section_begin;
  EncodingBudget budget;
  const std::vector<TextRange> trusted = {{0, marker.size()}};
  const auto tokens = model.tokenizer->encode_within(budget, marker, trusted);
  if (tokens.empty()) return std::nullopt;
  const bool is_marker = tokens.size() == 1 && marker.size() >= kShortestMarker;
  return is_marker || model.tokenizer->is_special(tokens.front()) ? std::optional(tokens.front())
                                                                  : std::nullopt;
}

bool must_be_bound(const GenerationRequest& request) {
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  return request.form || (chat != nullptr && chat->demands_call);
}

bool has_strict_tool(const GenerationRequest& request) {
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  return chat != nullptr && chat->has_strict_tool && chat->allows_calls;
}

bool needs_form_place(const GenerationRequest& request) {
  return must_be_bound(request) || has_strict_tool(request);
}

bool needs_tools_text(const ServedModel& model, const ChatPrompt& prompt, const ServingLimits& limits) {
  if (!prompt.splits_answer || prompt.tools.empty() || !prompt.allows_calls || prompt.messages.empty() ||
      !model.chat_template)
    return false;
  const auto& dialect = model.chat_template->tool_dialect();
  const bool has_room =
      limits.context_length == 0 || prompt.tools.size() <= kBytesAContextToken * limits.context_length;
  return !dialect.shows_tools && !dialect.shows_calls && has_room;
}

ChatPrompt with_tools_text(ChatPrompt prompt) {
  const auto text = general_tools_text(prompt.tools);
  if (prompt.messages.front().role == "system") {
    prompt.messages.front().content += "\n\n" + text;
    return prompt;
  }
  const auto is_user = [](const ChatMessage& message) { return message.role == "user"; };
  const auto user = std::find_if(prompt.messages.begin(), prompt.messages.end(), is_user);
  if (user == prompt.messages.end()) {
    prompt.messages.insert(prompt.messages.begin(), {.role = "user", .content = text});
  } else {
    user->content = text + "\n\n" + user->content;
  }
  return prompt;
}

void append_parts(AnswerParts& parts, AnswerParts more) {
  parts.reasoning += more.reasoning;
  parts.text += more.text;
  for (auto& call : more.calls) parts.calls.push_back(std::move(call));
}

}  // namespace troupe
