// SPDX-License-Identifier: Apache-2.0
// The response object of OpenAI's Responses API as JSON, of an answer under way,
// complete or stored, with its names in its order. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "actors/generation_request.hpp"
#include "http/error_response.hpp"

namespace troupe {

enum class ResponseStatus : std::uint8_t { kInProgress, kCompleted, kIncomplete, kFailed };

// Views and pointers into what outlives it.
struct ResponseView {
  std::string_view id;  // "resp_…"
  std::int64_t created = 0;
  std::string_view model;
  std::string_view previous, instructions;  // empty: none
  std::string_view settings;                // JSON members: see ConversationTurn
  ResponseStatus status = ResponseStatus::kInProgress;
  bool is_stored = false;
  std::optional<std::string_view> text = {};  // of its one message; absent: none yet
  std::span<const AnswerToken> tokens = {};   // with log-probabilities, if they were asked for
  const Usage* usage = nullptr;               // null: not known yet
  const RequestTimings* timings = nullptr;
  const HttpError* error = nullptr;
};

std::string_view name_of(ResponseStatus status);
// kStop completes a response, kLength leaves it incomplete.
ResponseStatus status_of(FinishReason reason);
ResponseView view_of(const StoredResponse& response, const Usage& usage);

void append_response_object(std::string& out, const ResponseView& response);

// "msg_…": of the message that a response consists of.
std::string message_id(std::string_view response_id);
// The message itself; text absent: it has no content yet.
void append_output_message(std::string& out, std::string_view response_id, ResponseStatus status,
                           std::optional<std::string_view> text, std::span<const AnswerToken> tokens);
void append_output_text(std::string& out, std::string_view text, std::span<const AnswerToken> tokens = {});

// {"id":…,"object":"response.deleted","deleted":true}
std::string deleted_json(std::string_view response_id);

}  // namespace troupe
