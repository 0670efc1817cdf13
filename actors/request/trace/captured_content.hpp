// SPDX-License-Identifier: Apache-2.0
// Prompts and answers as attributes of a request's span: JSON in the form of
// OpenTelemetry's gen_ai.input.messages and gen_ai.output.messages. Called only
// where an operator has switched the capture of contents on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "actors/request/generation_request.hpp"

namespace troupe {

// Most text that is kept of the prompt, and again of the answer; of a chat also the
// JSON around it, before characters are escaped.
inline constexpr std::size_t kMaxCapturedBytes = 64 * 1024;

// The last messages that fit; the first of these may have lost its end. Empty if the
// prompt is tokens, not text.
std::string input_messages(const GenerationRequest& request);

// finish_reason: "stop", "length", or "error" for an answer that was cut short.
std::string output_messages(const std::string& answer, std::string_view finish_reason);

}  // namespace troupe
