// SPDX-License-Identifier: Apache-2.0
#include "actors/prompt_encoding.hpp"

#include <string>
#include <utility>

#include "actors/conversation_prompt.hpp"

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

ApiError invalid(std::string message, std::string field) {
  return {.kind = ApiErrorKind::kInvalidRequest, .message = std::move(message), .field = std::move(field)};
}

std::string spelling(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.token_content(*token)) : std::string();
}

Tokens encode_text(const ServedModel& model, const TextPrompt& prompt) {
  auto tokens = model.tokenizer->prefix_tokens();
  const auto text = model.tokenizer->encode(prompt.text);
  tokens.insert(tokens.end(), text.begin(), text.end());
  return tokens;
}

std::variant<EncodedPrompt, ApiError> encode_chat_prompt(const ServedModel& model,
                                                         const GenerationRequest& request,
                                                         const Conversation* conversation) {
  const auto& chat = std::get<ChatPrompt>(request.prompt);
  if (request.turn) return encode_turn(model, *request.turn, chat, conversation);
  auto encoded = encode_messages(model, chat);
  if (auto* error = std::get_if<ApiError>(&encoded)) return std::move(*error);
  return EncodedPrompt{.tokens = std::get<Tokens>(std::move(encoded))};
}

}  // namespace

std::variant<EncodedPrompt, ApiError> encode_prompt(const ServedModel& model,
                                                    const GenerationRequest& request,
                                                    const Conversation* conversation) {
  try {
    if (std::holds_alternative<ChatPrompt>(request.prompt))
      return encode_chat_prompt(model, request, conversation);
    if (const auto* text = std::get_if<TextPrompt>(&request.prompt))
      return EncodedPrompt{.tokens = encode_text(model, *text)};
    return EncodedPrompt{.tokens = std::get<TokenPrompt>(request.prompt).tokens};
  } catch (const std::exception& error) {
    return invalid(std::string("The prompt can't be encoded: ") + error.what(), "prompt");
  }
}

std::variant<Tokens, ApiError> encode_messages(const ServedModel& model, const ChatPrompt& prompt) {
  if (!model.chat_template)
    return invalid(
        "The model " + model.name + " has no chat template; use /v1/completions with a text prompt.",
        "messages");
  if (prompt.messages.empty())
    return invalid("messages must have at least one message; got none.", "messages");
  auto input = template_input(model);
  input.add_generation_prompt = prompt.add_generation_prompt;
  for (const auto& message : prompt.messages)
    input.messages.push_back(chat_message(message.role, message.content));
  auto rendered = model.chat_template->render(input);
  if (auto* error = std::get_if<TemplateError>(&rendered))
    return invalid(std::move(error->message), "messages");
  return encode_chat(*model.tokenizer, std::get<std::vector<TemplatePiece>>(rendered));
}

ChatTemplateInput template_input(const ServedModel& model) {
  ChatTemplateInput input;
  input.bos_token = spelling(*model.tokenizer, model.tokenizer->bos_token());
  input.eos_token = spelling(*model.tokenizer, model.tokenizer->eos_token());
  return input;
}

std::size_t prompt_text_bytes(const GenerationRequest& request, const Conversation* conversation) {
  if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) return text->text.size();
  std::size_t bytes = 0;
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt))
    for (const auto& message : chat->messages) bytes += message.role.size() + message.content.size();
  if (request.turn) bytes += request.turn->instructions.size();
  if (conversation != nullptr)
    for (const auto& message : conversation->messages) bytes += message.role.size() + message.content.size();
  return bytes;
}

}  // namespace troupe
