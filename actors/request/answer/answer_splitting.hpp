// SPDX-License-Identifier: Apache-2.0
// Decides how the answer to a request is taken apart: by the model's template,
// the request's tools, and the end of its prompt, which may open the reasoning. A
// model whose template knows no tools is told of them in a text.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/engine.hpp"
#include "policy/admitting/admission.hpp"
#include "text/answer/answer_parser.hpp"
#include "text/token_id.hpp"

namespace troupe {

// nullopt: the answer is one text.
std::optional<AnswerReading> answer_reading(const ServedModel& model, const GenerationRequest& request,
                                            const std::vector<std::int32_t>& prompt);

// The answer's calls are to be bound to their schemas: one is demanded, or may come, nothing forbids the
// answer to end, and the model's calls can be told from text.
bool binds_calls(const ServedModel& model, const GenerationRequest& request);
// The token that begins a call, where a request has tools and its answer may have none. nullopt: calls may
// come, or the model's are begun by text, which stays text.
std::optional<TokenId> forbidden_token(const ServedModel& model, const GenerationRequest& request);
// It is not answered unless it is bound: the answer has a form, or a call is demanded.
bool must_be_bound(const GenerationRequest& request);
// Calls may come, and one of a tool may not break its schema.
bool has_strict_tool(const GenerationRequest& request);
// It is refused without a place among the answers that are bound to forms.
bool needs_form_place(const GenerationRequest& request);

// The template shows neither tools nor calls, calls may come, and the text leaves room for a chat.
bool needs_tools_text(const ServedModel& model, const ChatPrompt& prompt, const ServingLimits& limits);
// With the text in the system message in front, else in the first message of the user.
ChatPrompt with_tools_text(ChatPrompt prompt);

// Parts that follow others.
void append_parts(AnswerParts& parts, AnswerParts more);

}  // namespace troupe
