// SPDX-License-Identifier: Apache-2.0
// The JSON of answers that are sent whole, with OpenAI's names in OpenAI's
// order. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "http/api/answers/answer_json.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/served_model_info.hpp"

namespace troupe {

// Fields that all chunks or the whole of one answer have in common.
struct ResponseIdentity {
  std::string_view id;       // "chatcmpl-…" or "cmpl-…"
  std::int64_t created = 0;  // Unix seconds
  std::string_view model;
  ResponseShape shape = ResponseShape::kChat;
};

// "stop", "length" or "tool_calls"; only these end an answer well.
std::string_view finish_reason_name(const Finished& finished);

// {"prompt_tokens":…,…}
void append_usage(std::string& out, const Usage& usage);
// ,"timings":{…}: where the request's time went, in the spirit of llama.cpp's
// server. Nothing if that is not known. Rates are left out where there was
// nothing to divide.
void append_timings_member(std::string& out, const RequestTimings& timings, const Usage& usage);
// "finish_reason":"stop","stop_reason":null
void append_finish(std::string& out, const Finished& finished);

// One of the answers to a request.
struct ChoiceView {
  std::string_view text;
  const Finished* finished = nullptr;
  const std::vector<AnswerToken>* tokens = nullptr;  // null: log-probabilities were not asked for
  std::string_view reasoning = {};                   // of a chat
  std::span<const CallDelta> calls = {};             // so, too; whole ones
  const PromptScores* prompt_scores = nullptr;       // of its prompt; null: not asked for
};

// total: the usage of all choices, and the times.
void append_completed(AnswerJson& json, const ResponseIdentity& identity, std::span<const ChoiceView> choices,
                      const Finished& total);

// {"object":"list","data":[…],"model":…,"usage":{…}}
void append_embedding_list(AnswerJson& json, std::string_view model, const EmbeddingView& vectors,
                           std::uint32_t prompt_tokens);

std::string model_json(const ServedModelInfo& model);
std::string model_list_json(const std::vector<ServedModelInfo>& models);

}  // namespace troupe
