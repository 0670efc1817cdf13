// SPDX-License-Identifier: Apache-2.0
// JSON bodies of the endpoints that take prompts: what is read keeps to its bounds.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <variant>

#include "http/api/requests/openai_api.hpp"
#include "http/json/json_document.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/body_checks.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/template_messages.hpp"
#include "text/utf8.hpp"

namespace troupe::fuzz {
namespace {

namespace json = boost::json;

void check_sampling(const GenerationRequest& request) {
  const SamplingParameters& sampling = request.sampling;
  require(sampling.temperature >= 0 && sampling.temperature <= 100, "temperature is out of range");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p is out of range");
  require(sampling.min_p >= 0 && sampling.min_p <= 1, "min_p is out of range");
  require(sampling.top_k >= 0, "top_k is negative");
  require(sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty),
          "the repetition penalty is out of range");
  require(std::isfinite(sampling.frequency_penalty) && std::isfinite(sampling.presence_penalty),
          "a penalty is not finite");
  require(sampling.top_logprobs <= kMaxTopLogprobs, "more log-probabilities than allowed");
  require(request.stop.size() <= kLimits.max_stop_strings, "more stop strings than allowed");
  for (const auto& stop : request.stop)
    require(!stop.empty() && stop.size() <= kLimits.max_stop_string_bytes, "a stop string is out of bounds");
  require(request.stop_token_ids.size() <= kLimits.max_stop_token_ids, "more stop tokens than allowed");
}

// A block of a message may be a message of its own; the first may be the system's.
constexpr std::size_t kMaxMessagesOfBlocks =
    1 + kLimits.max_messages * (1 + kLimits.max_content_parts + kLimits.max_tools);

// A template that shows roles and contents renders all that clients may send.
void check_chat(const ChatPrompt& prompt, std::size_t max_messages) {
  static const ChatTemplate shows_all = ChatTemplate::parse(
      "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}");
  require(!prompt.messages.empty() && prompt.messages.size() <= max_messages,
          "the number of messages is out of bounds");
  ChatTemplateInput input;
  input.messages = template_messages(prompt.messages, shows_all.tool_dialect());
  if (!prompt.tools.empty()) {
    const auto tools = parse_client_json(prompt.tools);
    require(tools.has_value(), "tools were taken that no template can be given");
    input.tools = *tools;
  }
  const auto rendered = shows_all.render(input);
  require(std::holds_alternative<std::vector<TemplatePiece>>(rendered), "a conversation can't be rendered");
  for (const auto& piece : std::get<std::vector<TemplatePiece>>(rendered))
    require(valid_utf8_prefix(piece.text) == piece.text.size(), "a rendered text is not UTF-8");
}

void check_tokens(const TokenPrompt& prompt) {
  require(std::all_of(prompt.tokens.begin(), prompt.tokens.end(), [](auto id) { return id >= 0; }),
          "a prompt has a negative token");
}

void check_generation(const std::variant<ApiRequest, ApiError>& parsed,
                      std::size_t max_messages = kLimits.max_messages) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiRequest>(parsed);
  require(request.generation.model == 0, "another model than one that generates");
  check_sampling(request.generation);
  if (const auto* chat = std::get_if<ChatPrompt>(&request.generation.prompt)) check_chat(*chat, max_messages);
  if (const auto* tokens = std::get_if<TokenPrompt>(&request.generation.prompt)) check_tokens(*tokens);
  for (const auto& prompt : request.more_prompts)
    if (const auto* tokens = std::get_if<TokenPrompt>(&prompt)) check_tokens(*tokens);
}

// A prompt that is encoded or decoded and not run.
void check_token_request(const std::variant<ApiTokenRequest, ApiError>& parsed,
                         std::size_t max_messages = kLimits.max_messages) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiTokenRequest>(parsed);
  const GenerationRequest& generation = request.generation;
  require(generation.use != PromptUse::kRun, "a request for tokens is to be run");
  require(generation.model < models().all().size(), "another model than those that are served");
  if (const auto* chat = std::get_if<ChatPrompt>(&generation.prompt)) check_chat(*chat, max_messages);
  const auto* tokens = std::get_if<TokenPrompt>(&generation.prompt);
  require((generation.use == PromptUse::kDecode) == (tokens != nullptr), "a text of no tokens is wanted");
  if (tokens != nullptr) check_tokens(*tokens);
}

}  // namespace

void fuzz_chat_body(std::string_view bytes) {
  check_document(bytes);
  check_generation(parse_chat_request(bytes, models(), kLimits));
}

void fuzz_completion_body(std::string_view bytes) {
  check_document(bytes);
  check_generation(parse_completion_request(bytes, models(), kLimits));
}

// The question how many tokens it would have is answered for the same messages.
void fuzz_messages_body(std::string_view bytes) {
  check_document(bytes);
  const auto parsed = parse_messages_request(bytes, models(), kLimits);
  check_generation(parsed, kMaxMessagesOfBlocks);
  const auto counted = parse_count_tokens_request(bytes, models(), kLimits);
  check_token_request(counted, kMaxMessagesOfBlocks);
  if (const auto* request = std::get_if<ApiRequest>(&parsed)) {
    require(std::holds_alternative<ApiTokenRequest>(counted), "a message that is taken can't be counted");
    require(std::get<ChatPrompt>(std::get<ApiTokenRequest>(counted).generation.prompt).messages.size() ==
                std::get<ChatPrompt>(request->generation.prompt).messages.size(),
            "other messages are counted than are answered");
  }
}

// Of /tokenize and of /detokenize.
void fuzz_token_body(std::string_view bytes) {
  check_document(bytes);
  check_token_request(parse_tokenize_request(bytes, models(), kLimits));
  check_token_request(parse_detokenize_request(bytes, models(), kLimits));
}

void fuzz_responses_body(std::string_view bytes) {
  check_document(bytes);
  const auto parsed = parse_responses_request(bytes, models(), kLimits);
  check_generation(parsed);
  const auto* request = std::get_if<ApiRequest>(&parsed);
  if (request == nullptr) return;
  require(request->generation.turn != nullptr, "a turn is none");
  const auto settings = parse_json_object("{" + request->generation.turn->settings + "}", kLimits);
  require(std::holds_alternative<json::object>(settings), "settings that are repeated are no JSON");
}

}  // namespace troupe::fuzz
