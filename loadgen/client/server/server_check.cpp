// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/server_check.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "loadgen/client/http/answer_content.hpp"
#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/prompt_writer.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

[[noreturn]] void refuse_models(const ServerAddress& server, const HttpReply& reply, const std::string& why) {
  throw std::runtime_error("GET " + server.url() + "/v1/models: expected a list of models, " + why +
                           " (status " + std::to_string(reply.status) + ": " + error_text(reply.body) + ")");
}

std::vector<std::string> model_names(const ServerAddress& server, const HttpReply& reply) {
  const auto list = json::parse(reply.body, nullptr, false);
  if (!list.is_object() || !list.contains("data") || !list["data"].is_array())
    refuse_models(server, reply, "got something else");
  std::vector<std::string> names;
  for (const auto& model : list["data"])
    if (model.is_object() && model.contains("id") && model["id"].is_string()) names.push_back(model["id"]);
  if (names.empty()) refuse_models(server, reply, "it holds none");
  return names;
}

std::optional<std::uint32_t> prompt_tokens_of(const ServerAddress& server, std::string_view api_key,
                                              Endpoint endpoint, const std::string& model,
                                              std::uint32_t num_words) {
  PlannedConversation plan;
  plan.turns.push_back(
      {.think_time = {}, .prompt_tokens = num_words, .output_tokens = 1, .text = "", .answer = ""});
  const auto words = PromptWriter(num_words).text(plan, 0, 1.0);
  SamplingFields fields;
  fields.model = model;
  fields.is_streamed = false;
  fields.max_tokens = 1;
  if (endpoint == Endpoint::kResponses) endpoint = Endpoint::kChat;  // which leaves nothing in a store
  const auto body = endpoint == Endpoint::kChat         ? chat_body(fields, {{"user", words}})
                    : endpoint == Endpoint::kEmbeddings ? embedding_body(fields, words)
                    : endpoint == Endpoint::kClassify   ? classify_body(fields, words)
                                                        : completion_body(fields, words);
  const auto reply = http_exchange(server, {.path = endpoint_path(endpoint),
                                            .api_key = api_key,
                                            .json = body,
                                            .timeout = std::chrono::seconds(120)});
  AnswerContent content;
  if (reply.status != 200 || add_whole_answer(content, reply.body) != ChunkKind::kText || !content.usage)
    return {};
  return content.usage->prompt_tokens;
}

}  // namespace

void check_health(const ServerAddress& server) {
  const auto reply = http_exchange(server, {.path = "/health", .api_key = {}, .json = {}});
  if (reply.status >= 500)
    throw ServerUnreachable("GET " + server.url() + "/health: expected status 200, got " +
                            std::to_string(reply.status) + ": " + error_text(reply.body));
}

std::string find_model(const ServerAddress& server, std::string_view api_key, std::string_view wanted) {
  const auto reply = http_exchange(server, {.path = "/v1/models", .api_key = api_key, .json = {}});
  if (reply.status == 401 || reply.status == 403)
    refuse_models(server, reply, "the API key is missing or wrong");
  if (reply.status != 200 && !wanted.empty()) return std::string(wanted);
  if (reply.status != 200) refuse_models(server, reply, "so the model has to be named");
  const auto names = model_names(server, reply);
  if (wanted.empty()) return names.front();
  for (const auto& name : names)
    if (name == wanted) return name;
  throw std::runtime_error("the server at " + server.url() + " has no model '" + std::string(wanted) +
                           "', only " + joined(names));
}

double measure_tokens_per_word(const ServerAddress& server, std::string_view api_key, Endpoint endpoint,
                               const std::string& model) {
  // The difference, so that what a chat template adds does not count.
  constexpr std::uint32_t kFew = 8;
  constexpr std::uint32_t kMany = 72;
  const auto few = prompt_tokens_of(server, api_key, endpoint, model, kFew);
  const auto many = prompt_tokens_of(server, api_key, endpoint, model, kMany);
  if (!few || !many || *many <= *few) return 0;
  return static_cast<double>(*many - *few) / (kMany - kFew);
}

}  // namespace troupe::loadgen
