// SPDX-License-Identifier: Apache-2.0
// One request to an OpenAI-compatible server as JSON, with the fields that
// load generators send.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::loadgen {

// kResponses: conversations that the server keeps; a later turn names the response before
// it. kEmbeddings, kClassify: the prompt's vector or labels, whole, and no tokens.
enum class Endpoint : std::uint8_t { kChat, kCompletions, kResponses, kEmbeddings, kClassify };

std::string_view endpoint_path(Endpoint endpoint);  // "/v1/chat/completions"

struct ChatMessage {
  std::string_view role;  // "user", "assistant"
  std::string text;
};

struct SamplingFields {
  std::string model;
  bool is_streamed = true;
  double temperature = 0;
  std::optional<std::int64_t> seed = std::nullopt;
  // With ignore_eos exactly this many tokens are asked for, else at most.
  std::uint32_t max_tokens = 256;
  bool ignore_eos = false;
  // The answer will have so many; only for a server that wants to be told. 0: it is not told.
  std::uint32_t foretold_tokens = 0;
};

// Bytes that are no UTF-8 are replaced.
std::string chat_body(const SamplingFields& fields, const std::vector<ChatMessage>& messages);
std::string completion_body(const SamplingFields& fields, std::string_view prompt);
std::string completion_body(const SamplingFields& fields, const std::vector<std::int32_t>& prompt_ids);

// previous_response_id: empty in a first turn, which instructions go before, if there are some.
std::string response_body(const SamplingFields& fields, std::string_view input, std::string_view instructions,
                          std::string_view previous_response_id);
std::string embedding_body(const SamplingFields& fields, std::string_view input);
std::string classify_body(const SamplingFields& fields, std::string_view input);

}  // namespace troupe::loadgen
