// SPDX-License-Identifier: Apache-2.0
// JSON bodies of the endpoints: read or refused with a sentence that is JSON, and
// what is read keeps to its bounds.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <variant>

#include <boost/json/serialize.hpp>

#include "http/api/answers/error_response.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/json/json_document.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/template_messages.hpp"
#include "text/utf8.hpp"

namespace troupe::fuzz {
namespace {

namespace json = boost::json;

constexpr Limits kLimits;

const ServedModels& models() {
  static const ServedModels served({{.name = "demo", .context_length = 2048, .defaults = {}},
                                    {.name = "minilm",
                                     .kind = ModelKind::kEmbedding,
                                     .context_length = 256,
                                     .defaults = {},
                                     .embedding_size = 4},
                                    {.name = "ranker",
                                     .kind = ModelKind::kClassifying,
                                     .context_length = 256,
                                     .defaults = {},
                                     .labels = {"LABEL_0"}}});
  return served;
}

// Boost.JSON 1.81 reads a number to the last digit or the one before.
bool is_close(double a, double b) { return a == b || std::abs(a - b) <= 1e-14 * std::abs(a); }

bool is_same(const json::value& a, const json::value& b) {
  if (a.is_double() && b.is_number()) return is_close(a.get_double(), b.to_number<double>());
  if (a.is_array() && b.is_array())
    return std::equal(a.get_array().begin(), a.get_array().end(), b.get_array().begin(), b.get_array().end(),
                      is_same);
  if (a.is_object() && b.is_object()) {
    const auto& other = b.get_object();
    return a.get_object().size() == other.size() &&
           std::all_of(a.get_object().begin(), a.get_object().end(), [&](const auto& member) {
             const auto* found = other.if_contains(member.key());
             return found != nullptr && is_same(member.value(), *found);
           });
  }
  return a == b;
}

void check_error(const ApiError& error) {
  require(!error.message.empty(), "a refusal says nothing");
  const HttpError answer = to_http_error(error);
  require(answer.status >= 400 && answer.status < 500, "a body's fault is said to be ours");
  const auto sent = parse_json_object(error_json(answer), kLimits);
  require(std::holds_alternative<json::object>(sent), "an error is sent that is no JSON");
}

void check_document(std::string_view body) {
  const auto document = parse_json(body, kLimits);
  if (const auto* error = std::get_if<ApiError>(&document)) return check_error(*error);
  const auto& value = std::get<json::value>(document);
  const auto again = parse_json(json::serialize(value), kLimits);
  require(std::holds_alternative<json::value>(again), "a document is refused after it was written");
  require(is_same(value, std::get<json::value>(again)), "a document is another one after it was written");
}

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

// A template that shows roles and contents renders all that clients may send.
void check_chat(const ChatPrompt& prompt) {
  static const ChatTemplate shows_all = ChatTemplate::parse(
      "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}");
  require(!prompt.messages.empty() && prompt.messages.size() <= kLimits.max_messages,
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

void check_generation(const std::variant<ApiRequest, ApiError>& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiRequest>(parsed);
  require(request.generation.model == 0, "another model than one that generates");
  check_sampling(request.generation);
  if (const auto* chat = std::get_if<ChatPrompt>(&request.generation.prompt)) check_chat(*chat);
  if (const auto* tokens = std::get_if<TokenPrompt>(&request.generation.prompt))
    require(std::all_of(tokens->tokens.begin(), tokens->tokens.end(), [](auto id) { return id >= 0; }),
            "a prompt has a negative token");
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

// Bodies of requests for classes, scores and ranks.
void check_scores(std::string_view bytes) {
  for (const auto parse : {parse_classify_request, parse_score_request, parse_rerank_request}) {
    const auto parsed = parse(bytes, models(), kLimits);
    if (const auto* error = std::get_if<ApiError>(&parsed)) {
      check_error(*error);
      continue;
    }
    const auto& request = std::get<ApiEmbeddingRequest>(parsed);
    require(!request.embedding.inputs.empty() &&
                request.embedding.inputs.size() <= 2 * kLimits.max_embedding_inputs,
            "the number of texts is out of bounds");
    require(request.embedding.model != 0, "a model that generates is to score");
    require(request.num_first < request.embedding.inputs.size(), "nothing is compared");
  }
}

void fuzz_embedding_body(std::string_view bytes) {
  check_document(bytes);
  check_scores(bytes);
  const auto parsed = parse_embedding_request(bytes, models(), kLimits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiEmbeddingRequest>(parsed);
  require(request.embedding.model == 1, "another model than one that embeds");
  require(
      !request.embedding.inputs.empty() && request.embedding.inputs.size() <= kLimits.max_embedding_inputs,
      "the number of inputs is out of bounds");
  require(request.dimensions <= 4, "more dimensions than the vectors have");
}

}  // namespace troupe::fuzz
