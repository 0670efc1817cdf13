// SPDX-License-Identifier: Apache-2.0
// A request's prompt to token ids: template, tokenizer, special tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/engine.hpp"
#include "actors/request/prompt/encoded_prompt.hpp"
#include "policy/admitting/admission.hpp"
#include "store/stored_response.hpp"
#include "text/history/turn_memory.hpp"

namespace troupe {

struct PromptTerms {
  ServingLimits limits = {};  // zeros: not known yet, no prompt is too long
  // Asked now and then; true: the encoding ends with kOverloaded. May be empty.
  std::function<bool()> is_interrupted = {};
  TurnMemory* memory = nullptr;  // of chats that come with their history; null: none
  // Memory for rendered chats, from one prompt to the next of the caller; null: fresh memory.
  std::string* buffer = nullptr;
};

// conversation: what the request's turn continues, or null. Never throws on
// account of the request. A prompt that is too long is not encoded to its end.
std::variant<EncodedPrompt, ApiError> encode_prompt(const ServedModel& model,
                                                    const GenerationRequest& request,
                                                    const Conversation* conversation = nullptr,
                                                    const PromptTerms& terms = {});

// The answer to a request that is not run. tokens: its encoded prompt, or the ids to be
// decoded. An error if an id is none of the vocabulary.
std::variant<EncodedText, ApiError> encoded_text(const ServedModel& model, const GenerationRequest& request,
                                                 std::vector<std::int32_t> tokens);

// A whole chat of the request through the model's template: its messages, and those it continues. As far as
// they are remembered they have the tokens that were run. Throws EncodingStopped.
std::variant<EncodedPrompt, ApiError> encode_messages(const ServedModel& model, const ChatPrompt& chat,
                                                      const GenerationRequest& request,
                                                      const PromptTerms& terms, EncodingBudget& budget);
// The chat's first messages, `number` of them, may be found in memory, up to the last.
bool remembers_messages(const ServedModel& model, const ChatPrompt& chat, std::size_t number,
                        const GenerationRequest& request, const PromptTerms& terms);
// A text that has too many bytes for the context, whatever its tokens are.
std::optional<ApiError> refuse_unencoded(const ServedModel& model, const GenerationRequest& request,
                                         const ServingLimits& limits);
// Why no conversation can be encoded, found by trying usual ones; nothing if one can.
// The model has a template.
std::optional<std::string> find_template_problem(const ServedModel& model);
// Error of a template that did not render: a refusal is the client's fault, other errors are not.
ApiError template_error(const ServedModel& model, const TemplateError& error);
// The prompt with its instructions where the model's template, which must be there, shows them.
ChatPrompt in_shown_roles(const ServedModel& model, ChatPrompt prompt);
// The model's template, which must be there, is given the prompt's tools: they stay where no call is
// allowed, if none can be drawn (gpt-oss' calls can).
bool gives_tools(const ServedModel& model, const ChatPrompt& prompt);
// The input of the model's template, which must be there; the prompt must outlive what is rendered from it.
ChatTemplateInput template_input(const ServedModel& model, const ChatPrompt& prompt);
ChatTemplateInput template_input(const ServedModel& model, ChatPrompt&& prompt) = delete;

// Text that a request encodes itself, in a few hundred microseconds; the encoder's threads have longer ones.
inline constexpr std::size_t kShortPromptBytes = 4096;

// Bytes of text to be encoded, as a measure of the work.
std::size_t text_bytes(const TextPrompt& prompt);
std::size_t prompt_text_bytes(const GenerationRequest& request, const Conversation* conversation = nullptr);

}  // namespace troupe
