// SPDX-License-Identifier: Apache-2.0
// The JSON of answers that are sent whole, with OpenAI's names in OpenAI's
// order. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/generation_request.hpp"
#include "http/openai_api.hpp"
#include "http/served_model_info.hpp"

namespace troupe {

// What all chunks or the whole of one answer have in common.
struct ResponseIdentity {
  std::string_view id;       // "chatcmpl-…" or "cmpl-…"
  std::int64_t created = 0;  // Unix seconds
  std::string_view model;
  ResponseShape shape = ResponseShape::kChat;
};

// "stop" or "length"; only these two end an answer well.
std::string_view finish_reason_name(FinishReason reason);

// {"prompt_tokens":…,…}
void append_usage(std::string& out, const Usage& usage);
// ,"timings":{…}: where the request's time went, in the spirit of llama.cpp's
// server. Nothing if that is not known. Rates are left out where there was
// nothing to divide.
void append_timings_member(std::string& out, const RequestTimings& timings, const Usage& usage);
// "finish_reason":"stop","stop_reason":null
void append_finish(std::string& out, const Finished& finished);

// tokens: with their log-probabilities; null: they were not asked for.
std::string completed_json(const ResponseIdentity& identity, std::string_view text, const Finished& finished,
                           const std::vector<AnswerToken>* tokens = nullptr);

std::string model_json(const ServedModelInfo& model);
std::string model_list_json(const ServedModelInfo& model);

}  // namespace troupe
