// SPDX-License-Identifier: Apache-2.0
// Answers of Anthropic's Messages API as JSON, with its names in its order. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/request/answer/answer_items.hpp"
#include "http/api/answers/answer_json.hpp"
#include "http/api/answers/error_response.hpp"
#include "http/api/answers/response_json.hpp"

namespace troupe {

// "end_turn", "max_tokens", "stop_sequence" or "tool_use".
std::string_view message_stop_reason(const Finished& finished);

// {"input_tokens":…,"cache_creation_input_tokens":0,"cache_read_input_tokens":…,"output_tokens":…}:
// of the prompt, input_tokens are those that no cache had.
void append_message_usage(std::string& out, const Usage& usage);
// "stop_reason":…,"stop_sequence":…
void append_message_stop(std::string& out, const Finished& finished);

// The content is a block for each item. A call's input is an object (call_input.hpp).
void append_message(AnswerJson& json, const ResponseIdentity& identity, const AnswerItems& answer,
                    const Finished& finished);
// Thoughts come with a signature, which clients hand back; here it is a hash that nothing depends on.
// hash: stable_hash() of the thoughts.
std::string thinking_signature(std::uint64_t hash);

// {"type":"error","error":{"type":…,"message":…},"request_id":…}
std::string message_error_json(const HttpError& error, std::string_view request_id);

}  // namespace troupe
