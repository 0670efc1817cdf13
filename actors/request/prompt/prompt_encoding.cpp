// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/prompt_encoding.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "actors/request/answer/answer_splitting.hpp"
#include "actors/request/prompt/conversation_prompt.hpp"
#include "actors/request/prompt/tree_encoding.hpp"
#include "text/client_json.hpp"
#include "text/fill_in.hpp"
#include "text/history/message_chain.hpp"
#include "text/template_messages.hpp"

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

ApiError invalid(std::string message, std::string field) {
  return {.kind = ApiErrorKind::kInvalidRequest, .message = std::move(message), .field = std::move(field)};
}

std::string spelling(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.token_content(*token)) : std::string();
}

// A prompt that is not run may be as long as it likes.
ServingLimits limits_for(const GenerationRequest& request, const ServingLimits& limits) {
  return request.is_to_be_run() ? limits : ServingLimits{};
}

ApiError context_too_long(const ServingLimits& limits) {
  Refusal refusal = refuse_longer_prompt(limits);
  return {.kind = ApiErrorKind::kContextTooLong,
          .message = std::move(refusal.message),
          .field = std::move(refusal.field)};
}

ApiError input_too_long(const ServingLimits& limits) {
  return {.kind = ApiErrorKind::kContextTooLong,
          .message = "This model's inputs have at most " + std::to_string(limits.context_length) +
                     " tokens; this one has more.",
          .field = "input"};
}

ApiError error_of(const EncodingStopped& stopped, const GenerationRequest& request,
                  const ServingLimits& limits) {
  switch (stopped.reason()) {
    case EncodingStop::kTooManyTokens:
      return request.wants_vector ? input_too_long(limits) : context_too_long(limits);
    case EncodingStop::kInterrupted:
      return {.kind = ApiErrorKind::kOverloaded,
              .message = "The prompt was not encoded in time; try again later."};
    case EncodingStop::kTooMuchWork: break;
  }
  return invalid(std::string("The prompt can't be encoded: ") + stopped.what() + ".",
                 request.wants_vector ? "input" : "prompt");
}

// Its own BOS is the only one. Admission counts the tokens in front.
Tokens encode_with_specials(const Tokenizer& tokenizer, const TextPrompt& prompt, EncodingBudget& budget) {
  const TextRange all{0, prompt.text.size()};
  Tokens tokens = tokenizer.encode_within(budget, prompt.text, std::span(&all, 1));
  if (!prompt.adds_special_tokens) return tokens;
  const Tokens prefix = tokenizer.prefix_tokens();
  const bool is_there =
      tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
  if (!is_there) tokens.insert(tokens.begin(), prefix.begin(), prefix.end());
  return tokens;
}

Tokens encode_text(const ServedModel& model, const TextPrompt& prompt, EncodingBudget& budget) {
  if (prompt.reads_special_tokens) return encode_with_specials(*model.tokenizer, prompt, budget);
  Tokens tokens;
  if (prompt.adds_special_tokens) tokens = model.tokenizer->prefix_tokens();
  budget.set_other_tokens(tokens.size());
  const auto text = model.tokenizer->encode_within(budget, prompt.text, {});
  tokens.insert(tokens.end(), text.begin(), text.end());
  return tokens;
}

std::variant<RenderedText, ApiError> render_messages(const ServedModel& model, const ChatPrompt& prompt,
                                                     EncodingBudget& budget, std::string buffer = {}) {
  if (!model.chat_template)
    return invalid(
        "The model " + model.name + " has no chat template; use /v1/completions with a text prompt.",
        "messages");
  if (prompt.messages.empty())
    return invalid("messages must have at least one message; got none.", "messages");
  const bool is_shown = shows_roles(model.chat_template->role_dialect(), prompt.messages);
  const ChatPrompt shown = is_shown ? ChatPrompt{} : in_shown_roles(model, prompt);
  auto input = template_input(model, is_shown ? prompt : shown);
  input.buffer = std::move(buffer);
  auto rendered = model.chat_template->render_text(std::move(input), budget);
  if (const auto* error = std::get_if<TemplateError>(&rendered)) return template_error(model, *error);
  return std::get<RenderedText>(std::move(rendered));
}

// The model's tokens around the text and the suffix.
std::variant<EncodedPrompt, ApiError> encode_fill_in(const ServedModel& model, const TextPrompt& prompt,
                                                     EncodingBudget& budget) {
  const auto format = find_fill_in_format(*model.tokenizer);
  if (!format)
    return invalid("The model " + model.name + " can't fill in text: its tokenizer has no tokens for that.",
                   "suffix");
  EncodedPrompt encoded;
  if (prompt.adds_special_tokens) encoded.tokens = model.tokenizer->prefix_tokens();
  budget.set_other_tokens(encoded.tokens.size());
  const auto text = fill_in_text(*format, prompt.text, *prompt.suffix);
  const auto tokens = model.tokenizer->encode_within(budget, text.text, text.trusted);
  encoded.tokens.insert(encoded.tokens.end(), tokens.begin(), tokens.end());
  encoded.end_tokens = format->end_tokens;
  return encoded;
}

// Everything that a prompt depends on besides its messages, and whose KV it may find.
std::uint64_t chain_seed(const ServedModel& model, const ChatPrompt& chat, const GenerationRequest& request) {
  const auto key = chain_key(request.cache_salt, chain_key(model.name, model.vocabulary));
  const std::string_view thinks = chat.thinks ? (*chat.thinks ? "thinks" : "does not") : "";
  return chain_key(thinks, chain_key(chat.tools, key));
}

EncodedPrompt encode_known_chat(const ServedModel& model, const ChatPrompt& chat,
                                const GenerationRequest& request, const RenderedText& rendered,
                                TurnMemory& memory, EncodingBudget& budget) {
  const auto keys = chain_keys(chat.messages, chain_seed(model, chat, request));
  const auto scope = turn_scope(model.vocabulary, request.cache_salt);
  auto prompt = encode_with_history(*model.tokenizer, rendered, keys, request.tenant, scope, memory, budget);
  return {.tokens = std::move(prompt.tokens),
          .num_remembered = prompt.num_remembered,
          .parts = std::make_shared<PromptParts>(std::move(prompt.parts))};
}

bool is_remembered(const GenerationRequest& request, const PromptTerms& terms) {
  return terms.memory != nullptr && terms.memory->is_on() && request.is_to_be_run();
}

std::variant<EncodedPrompt, ApiError> encode_chat_prompt(const ServedModel& model,
                                                         const GenerationRequest& request,
                                                         const Conversation* conversation,
                                                         const PromptTerms& terms, EncodingBudget& budget) {
  if (request.turn) return encode_turn(model, request, conversation, terms, budget);
  const auto& chat = std::get<ChatPrompt>(request.prompt);
  if (needs_tools_text(model, chat, terms.limits))
    return encode_messages(model, with_tools_text(chat), request, terms, budget);
  return encode_messages(model, chat, request, terms, budget);
}

// [CLS] first [SEP] second [SEP]
std::variant<EncodedPrompt, ApiError> encode_pair(const ServedModel& model, const TextPrompt& pair,
                                                  std::size_t longest, EncodingBudget& budget) {
  const auto around = model.tokenizer->pair_tokens();
  if (!around)
    return invalid("The tokenizer of the model " + model.name + " does not take pairs of texts.", "model");
  budget.set_other_tokens(around->count());
  const Tokens first = model.tokenizer->encode_within(budget, *pair.first, {});
  budget.set_other_tokens(around->count() + first.size());
  const Tokens second = model.tokenizer->encode_within(budget, pair.text, {});
  EncodedPair encoded =
      model.tokenizer->enclosed_pair(first, second, longest > 0 ? longest : EncodingBudget::kUnlimited);
  const std::size_t second_text = encoded.second_text < encoded.tokens.size() ? encoded.second_text : 0;
  return EncodedPrompt{.tokens = std::move(encoded.tokens),
                       .second_text = static_cast<std::uint32_t>(second_text)};
}

// [CLS] text [SEP], or whatever the model's inputs are enclosed in.
std::variant<EncodedPrompt, ApiError> encode_input(const ServedModel& model, const GenerationRequest& request,
                                                   const PromptTerms& terms) {
  const std::size_t longest = limits_for(request, terms.limits).context_length;
  const bool is_cut = request.truncates && longest > 0;
  const auto* text = std::get_if<TextPrompt>(&request.prompt);
  if (const auto rule = model.unfolding(); rule && rule->kind == UnfoldingKind::kTree) {
    if (text && !text->first) return encode_tree(model, text->text, terms.is_interrupted);
    return invalid("The model " + model.name + " classifies trees: the input must be one.", "input");
  }
  if (!text) {
    Tokens tokens = std::get<TokenPrompt>(request.prompt).tokens;
    if (is_cut && tokens.size() > longest) tokens.resize(longest);
    return EncodedPrompt{.tokens = std::move(tokens)};
  }
  EncodingBudget budget(is_cut || longest == 0 ? EncodingBudget::kUnlimited : longest, terms.is_interrupted);
  budget.ask();
  if (text->first) return encode_pair(model, *text, is_cut ? longest : 0, budget);
  if (!text->adds_special_tokens) return EncodedPrompt{.tokens = encode_text(model, *text, budget)};
  Tokens tokens = model.tokenizer->encode_enclosed(budget, text->text);
  if (!is_cut || tokens.size() <= longest) return EncodedPrompt{.tokens = std::move(tokens)};
  const std::size_t num_before = model.tokenizer->prefix_tokens().size();
  const std::size_t num_around = num_before + model.tokenizer->suffix_tokens().size();
  const std::span kept =
      std::span<const std::int32_t>(tokens).subspan(num_before, longest - std::min(longest, num_around));
  return EncodedPrompt{.tokens = model.tokenizer->enclosed(kept)};
}

}  // namespace

std::variant<EncodedPrompt, ApiError> encode_prompt(const ServedModel& model,
                                                    const GenerationRequest& request,
                                                    const Conversation* conversation,
                                                    const PromptTerms& terms) {
  const auto max_tokens = max_prompt_tokens(limits_for(request, terms.limits));
  EncodingBudget budget(max_tokens ? *max_tokens : EncodingBudget::kUnlimited, terms.is_interrupted);
  try {
    if (request.wants_vector) return encode_input(model, request, terms);
    budget.ask();
    if (std::holds_alternative<ChatPrompt>(request.prompt))
      return encode_chat_prompt(model, request, conversation, terms, budget);
    const auto* text = std::get_if<TextPrompt>(&request.prompt);
    if (text != nullptr && text->suffix) return encode_fill_in(model, *text, budget);
    if (text != nullptr) return EncodedPrompt{.tokens = encode_text(model, *text, budget)};
    return EncodedPrompt{.tokens = std::get<TokenPrompt>(request.prompt).tokens};
  } catch (const EncodingStopped& stopped) {
    return error_of(stopped, request, terms.limits);
  } catch (const std::exception& error) {
    return invalid(std::string("The prompt can't be encoded: ") + error.what(),
                   request.wants_vector ? "input" : "prompt");
  }
}

std::variant<EncodedText, ApiError> encoded_text(const ServedModel& model, const GenerationRequest& request,
                                                 Tokens tokens) {
  const auto size = static_cast<std::uint32_t>(model.tokenizer->vocabulary_size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (static_cast<std::uint32_t>(tokens[i]) < size) continue;  // one that is negative counts as very large
    return invalid("Token ids must be in [0, " + std::to_string(size) + "); got " +
                       std::to_string(tokens[i]) + " at position " + std::to_string(i) + ".",
                   "tokens");
  }
  EncodedText answer;
  if (request.use == PromptUse::kDecode) {
    answer.text = model.tokenizer->decode(tokens, false);
    return answer;
  }
  if (request.wants_token_texts)
    for (const std::int32_t token : tokens)
      answer.token_texts.emplace_back(model.tokenizer->token_content(token));
  answer.tokens = std::move(tokens);
  return answer;
}

std::variant<EncodedPrompt, ApiError> encode_messages(const ServedModel& model, const ChatPrompt& chat,
                                                      const GenerationRequest& request,
                                                      const PromptTerms& terms, EncodingBudget& budget) {
  auto buffer = terms.buffer != nullptr ? std::exchange(*terms.buffer, {}) : std::string();
  auto answer = render_messages(model, chat, budget, std::move(buffer));
  if (auto* error = std::get_if<ApiError>(&answer)) return std::move(*error);
  RenderedText& rendered = std::get<RenderedText>(answer);
  auto prompt = is_remembered(request, terms)
                    ? encode_known_chat(model, chat, request, rendered, *terms.memory, budget)
                    : EncodedPrompt{.tokens = encode_chat(*model.tokenizer, rendered, budget)};
  if (terms.buffer != nullptr) *terms.buffer = std::move(rendered.text);
  return prompt;
}

bool remembers_messages(const ServedModel& model, const ChatPrompt& chat, std::size_t number,
                        const GenerationRequest& request, const PromptTerms& terms) {
  if (!is_remembered(request, terms)) return false;
  const auto keys = chain_keys(std::span(chat.messages).first(number), chain_seed(model, chat, request));
  const auto part = terms.memory->find(request.tenant, keys);
  return part != nullptr && part->key == keys.back();
}

std::optional<ApiError> refuse_unencoded(const ServedModel& model, const GenerationRequest& request,
                                         const ServingLimits& limits) {
  const auto* text = std::get_if<TextPrompt>(&request.prompt);
  const auto max_tokens = max_prompt_tokens(limits_for(request, limits));
  if (text == nullptr || !max_tokens) return std::nullopt;
  if (text_bytes(*text) / model.tokenizer->max_token_bytes() <= *max_tokens) return std::nullopt;
  return context_too_long(limits);
}

std::optional<std::string> find_template_problem(const ServedModel& model) {
  const ChatMessage system{"system", "Answer in one word."}, question{"user", "Hello?"},
      answer{"assistant", "Yes."};
  const std::vector<std::vector<ChatMessage>> conversations = {
      {question}, {system, question}, {question, answer, question}};
  std::optional<std::string> problem;
  for (const auto& messages : conversations) {
    GenerationRequest request;
    request.prompt = ChatPrompt{.messages = messages};
    const auto encoded = encode_prompt(model, request);
    if (std::holds_alternative<EncodedPrompt>(encoded)) return std::nullopt;
    if (!problem) problem = std::get<ApiError>(encoded).message;
  }
  return problem;
}

ApiError template_error(const ServedModel& model, const TemplateError& error) {
  if (error.kind == TemplateError::Kind::kRefusal) return invalid(error.message, "messages");
  if (error.kind == TemplateError::Kind::kLimit)
    return invalid("The messages are too much for the model's chat template: " + error.message + ".",
                   "messages");
  return {.kind = ApiErrorKind::kInternal,
          .message = "The chat template of the model " + model.name +
                     " fails on these messages: " + error.message + "."};
}

ChatPrompt in_shown_roles(const ServedModel& model, ChatPrompt prompt) {
  prompt.messages = with_shown_roles(std::move(prompt.messages), model.chat_template->role_dialect());
  return prompt;
}

bool gives_tools(const ServedModel& model, const ChatPrompt& prompt) {
  const ChatTemplate& chat_template = *model.chat_template;
  return chat_template.tool_dialect().shows_tools && !prompt.tools.empty() &&
         (prompt.allows_calls || !chat_template.answer_format().is_harmony());
}

ChatTemplateInput template_input(const ServedModel& model, const ChatPrompt& prompt) {
  const auto& dialect = model.chat_template->tool_dialect();
  ChatTemplateInput input;
  input.messages = template_messages(prompt.messages, dialect);
  input.add_generation_prompt = prompt.add_generation_prompt;
  if (gives_tools(model, prompt)) {
    auto tools = parse_client_json(prompt.tools);
    if (!tools) throw std::runtime_error("tools have too many keys or too much nesting");
    input.tools = std::move(*tools);
  }
  const std::string& thinking = model.chat_template->thinking_switch();
  if (prompt.thinks && !thinking.empty()) input.extra.emplace_back(thinking, *prompt.thinks);
  input.bos_token = spelling(*model.tokenizer, model.tokenizer->bos_token());
  input.eos_token = spelling(*model.tokenizer, model.tokenizer->eos_token());
  return input;
}

std::size_t text_bytes(const TextPrompt& prompt) {
  return prompt.text.size() + (prompt.first ? prompt.first->size() : 0) +
         (prompt.suffix ? prompt.suffix->size() : 0);
}

std::size_t prompt_text_bytes(const GenerationRequest& request, const Conversation* conversation) {
  if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) return text_bytes(*text);
  std::size_t bytes = 0;
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    bytes += chat->tools.size();
    for (const auto& message : chat->messages) bytes += text_bytes(message);
  }
  if (request.turn) bytes += request.turn->instructions.size();
  if (conversation != nullptr)
    for (const auto& message : conversation->messages) bytes += message.role.size() + message.content.size();
  return bytes;
}

}  // namespace troupe
