// SPDX-License-Identifier: Apache-2.0
// The response object of OpenAI's Responses API as JSON, of an answer under way,
// complete or stored, with its names in its order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/request/answer/answer_items.hpp"
#include "actors/request/generation_request.hpp"
#include "http/api/answers/answer_json.hpp"
#include "http/api/answers/error_response.hpp"

namespace troupe {

enum class ResponseStatus : std::uint8_t {
  kQueued,
  kInProgress,
  kCompleted,
  kIncomplete,
  kCancelled,
  kFailed
};

// The last of ConversationTurn::settings of a response in the background.
inline constexpr std::string_view kBackgroundMember = ",\"background\":true";

// Views and pointers into what outlives it.
struct ResponseView {
  std::string_view id;  // "resp_…"
  std::int64_t created = 0;
  std::string_view model;
  std::string_view previous, instructions;  // empty: none
  std::string_view settings;                // JSON members: see ConversationTurn
  ResponseStatus status = ResponseStatus::kInProgress;
  bool is_stored = false;
  const AnswerItems* answer = nullptr;  // null: none yet. With log-probabilities, if they were asked for
  const Usage* usage = nullptr;         // null: not known yet
  const RequestTimings* timings = nullptr;
  const HttpError* error = nullptr;
};

std::string_view name_of(ResponseStatus status);
// kStop completes a response, kLength leaves it incomplete, kCancelled cancelled.
ResponseStatus status_of(FinishReason reason);
ResponseView view_of(const StoredResponse& response, const AnswerItems& answer, const Usage& usage);

void append_response_object(AnswerJson& json, const ResponseView& response);

// "msg_…": of a message that is a response's first item.
std::string message_id(std::string_view response_id);

// An item of a response's output.
struct OutputItemView {
  std::string_view response_id;
  std::size_t index = 0;  // in the output
  const AnswerItem* item = nullptr;
  ResponseStatus status = ResponseStatus::kCompleted;
  bool has_content = true;  // false: it has just begun
  bool has_tokens = false;  // with the log-probabilities of a text
};
std::string item_id(const OutputItemView& view);
void append_output_item(AnswerJson& json, const OutputItemView& view);
void append_output_text(AnswerJson& json, std::string_view text, std::span<const AnswerToken> tokens = {});

// {"id":…,"object":"response.deleted","deleted":true}
std::string deleted_json(std::string_view response_id);

}  // namespace troupe
