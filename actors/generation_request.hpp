// SPDX-License-Identifier: Apache-2.0
// A request for generated text as the HTTP layer and the command line hand it
// to the engine, and the events that come back. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/api_error.hpp"
#include "gpu/batch.hpp"

namespace troupe {

struct ChatMessage {
  std::string role;     // system, developer, user, assistant, tool
  std::string content;  // parts joined
};

struct ChatPrompt {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
};
struct TextPrompt {
  std::string text;
};
struct TokenPrompt {
  std::vector<std::int32_t> tokens;
};

struct GenerationRequest {
  std::string id;  // ours: "chatcmpl-…"; used in logs and traces
  std::variant<ChatPrompt, TextPrompt, TokenPrompt> prompt;
  SamplingParameters sampling;
  // sampling.seed was asked for, be it 0; if not, and it is 0, the engine draws one.
  bool has_seed = false;
  std::optional<std::uint32_t> max_tokens;  // absent: up to the context limit
  std::uint32_t min_tokens = 0;
  std::vector<std::string> stop;
  bool include_stop_in_output = false;
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;
  bool echo = false;  // completions: the prompt's text comes first
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt, found in shared pages
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };

// The request was tokenized, validated and queued; from here on errors are
// in-band. Exactly one terminal event (Finished or Failed) ends every request.
struct Accepted {
  std::uint32_t prompt_tokens = 0;
};
// New text: complete UTF-8, nothing that may still become a stop string. Text
// may be empty where tokens only complete half a character.
struct TextDelta {
  std::string text;
  Usage usage;  // so far
};
struct Finished {
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string;  // the stop string that matched
  std::optional<std::int32_t> stop_token;  // the stop token id that matched
  Usage usage;
};
struct Failed {
  ApiError error;
};
using ResponseEvent = std::variant<Accepted, TextDelta, Finished, Failed>;

}  // namespace troupe
