// SPDX-License-Identifier: Apache-2.0
#include "http/routing/service.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/request/answer/stored_items.hpp"
#include "http/api/answers/engine_status_json.hpp"
#include "http/api/answers/event_page.hpp"
#include "http/api/answers/limit_fields.hpp"
#include "http/api/answers/ollama/ollama_json.hpp"
#include "http/api/answers/ollama/ollama_models.hpp"
#include "http/api/answers/response_json.hpp"
#include "http/api/answers/response_object.hpp"
#include "http/api/answers/trace_query.hpp"
#include "http/api/answers/vectors/score_json.hpp"
#include "http/api/openapi/openapi_json.hpp"
#include "http/json/json_text.hpp"
#include "http/page/page_reply.hpp"
#include "http/wire/framing.hpp"
#include "telemetry/log.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "telemetry/system_random.hpp"
#include "telemetry/tracing/otlp_json.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxCorsHeadersBytes = 1024;
constexpr std::size_t kMaxResponseIdBytes = 128;
constexpr std::size_t kMaxShownBytes = 100;

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return equal_ignoring_case(type, "application/json");
}

bool is_ollama_inference(Route route) {
  return route == Route::kOllamaChat || route == Route::kOllamaGenerate || route == Route::kOllamaEmbed ||
         route == Route::kOllamaEmbeddings;
}

// Requests that a model runs for.
bool is_inference(Route route) {
  return route == Route::kChatCompletions || route == Route::kCompletions || route == Route::kResponses ||
         route == Route::kMessages || route == Route::kCountTokens || route == Route::kEmbeddings ||
         route == Route::kClassify || route == Route::kScore || route == Route::kRerank ||
         route == Route::kTokenize || route == Route::kDetokenize || is_ollama_inference(route);
}

auto parser_of(ResponseShape shape) {
  switch (shape) {
    case ResponseShape::kChat: return parse_chat_request;
    case ResponseShape::kCompletion: return parse_completion_request;
    case ResponseShape::kMessage: return parse_messages_request;
    case ResponseShape::kOllamaChat: return parse_ollama_chat_request;
    case ResponseShape::kOllamaGenerate: return parse_ollama_generate_request;
    case ResponseShape::kResponse: break;
  }
  return parse_responses_request;
}

std::string_view id_prefix(ResponseShape shape) {
  switch (shape) {
    case ResponseShape::kChat: return "chatcmpl-";
    case ResponseShape::kCompletion: return "cmpl-";
    case ResponseShape::kMessage: return "msg_";
    case ResponseShape::kOllamaChat:
    case ResponseShape::kOllamaGenerate: return "ollama-";
    case ResponseShape::kResponse: break;
  }
  return "resp_";
}

auto vector_parser_of(Route route) {
  switch (route) {
    case Route::kClassify: return parse_classify_request;
    case Route::kScore: return parse_score_request;
    case Route::kRerank: return parse_rerank_request;
    case Route::kOllamaEmbed: return parse_ollama_embed_request;
    case Route::kOllamaEmbeddings: return parse_ollama_embeddings_request;
    default: return parse_embedding_request;
  }
}

std::string_view id_prefix(VectorUse use) {
  switch (use) {
    case VectorUse::kClasses: return "classify-";
    case VectorUse::kScores: return "score-";
    case VectorUse::kRanks: return "rerank-";
    case VectorUse::kOllamaVectors:
    case VectorUse::kOllamaVector:
    case VectorUse::kEmbeddings: break;
  }
  return "embd-";
}

bool gives_vectors(VectorUse use) {
  return use == VectorUse::kEmbeddings || use == VectorUse::kOllamaVectors || use == VectorUse::kOllamaVector;
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

auto token_parser_of(Route route) {
  if (route == Route::kCountTokens) return parse_count_tokens_request;
  return route == Route::kTokenize ? parse_tokenize_request : parse_detokenize_request;
}

// As ours are made; what is not may hold anything and is not repeated.
bool is_id(std::string_view text) {
  return text.size() <= kMaxResponseIdBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                  c == '-';
         });
}

// A tenant's own salt divides what is its own; it leads to nobody else's pages.
// Neither part can contain a line break.
std::string salt_of(const std::string& tenant, const std::string& salt) {
  return tenant.empty() ? salt : tenant + "\n" + salt;
}

// As OpenAI's clients send it, or in the field of Anthropic's; empty: there is none.
std::string_view key_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given = request.authorization;
  if (given.empty()) return request.api_key;
  if (!equal_ignoring_case(given.substr(0, kScheme.size()), kScheme))
    return request.api_key;  // a proxy's, say
  return given.substr(std::min(kScheme.size(), given.size()));
}

bool changes_state(std::string_view method) {
  return method != "GET" && method != "HEAD" && method != "OPTIONS";
}

// A client's text for a message: visible ASCII, and not too much of it.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, kMaxShownBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c <= ' ' || c >= 0x7F; }, '?');
  return text.size() > kMaxShownBytes ? out + "..." : out;
}

HttpError nothing_here(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  std::string message = "there is nothing at " + shown(path);
  const std::string below = "/v1" + std::string(path);
  if (match_route(below).route != Route::kUnknown) message += "; try " + shown(below);
  if (match_route(path).route == Route::kUnknown && match_route(path, Door::kOllama).route != Route::kUnknown)
    message += "; Ollama's API has a port of its own: --ollama-port";
  return http_error(404, std::move(message));
}

std::string draw_id(std::string_view prefix) {
  return std::string(prefix) + hex_of(system_random()) + hex_of(system_random());
}

Reply unavailable(std::string why) { return error_reply(http_error(503, std::move(why))); }

}  // namespace

Service::Service(Engine& engine, Metrics& metrics, const ServedModels& models, const ServerOptions& options)
    : engine_(engine),
      metrics_(metrics),
      models_(models),
      options_(options),
      accounts_(metrics, options),
      access_(make_access(options)) {}

// The port for metrics asks nobody for a key, so it knows its names always. Without
// a list, a server that was opened to the network has none to know.
std::shared_ptr<const Service::Access> Service::make_access(const ServerOptions& options) {
  return std::make_shared<const Access>(
      Access{.api_keys = options.api_keys,
             .hosts = TrustedHosts(options.host, options.allowed_hosts, options.cors_origins),
             .checks_host = !options.allow_public_without_key || !options.allowed_hosts.empty()});
}

std::shared_ptr<const Service::Access> Service::access() const {
  const std::lock_guard lock(access_mutex_);
  return access_;
}

void Service::replace_access(const ServerOptions& options) {
  check_exposure(options);
  auto access = make_access(options);
  accounts_.replace(options);
  const std::lock_guard lock(access_mutex_);
  access_ = std::move(access);
}

Service::Handled Service::handle(const HttpRequest& request, const RouteMatch& asked, Door door,
                                 const Access& access) {
  const bool is_off = asked.route == Route::kPage && !options_.has_page;
  const RouteMatch route = is_off ? RouteMatch{} : asked;
  if (const auto refusal = refuse_web_page(request, access, door)) {
    if (is_inference(route.route)) metrics_.refused_unauthorized.add();
    return error_reply(*refusal);
  }
  if (door == Door::kReserve && !is_served(route, door)) return error_reply(no_room_error());
  const bool is_preflight = request.method == "OPTIONS" && !request.cors_headers.empty();
  if (is_preflight && access.hosts.allows_origin(request.origin)) return preflight(request, route);
  const auto tenant = needs_key(route, door) ? tenant_of(request, access) : std::string();
  if (!tenant) {
    if (is_inference(route.route)) metrics_.refused_unauthorized.add();
    return error_reply(
        http_error(401, request.authorization.empty() && request.api_key.empty()
                            ? "an API key is required: Authorization: Bearer <key>"
                            : "this API key is not known; expected is Authorization: Bearer <key>"));
  }
  if (route.route == Route::kUnknown || !is_served(route, door))
    return error_reply(nothing_here(request.target));
  if (request.method == "OPTIONS") {
    return Reply{.status = 204, .body = {}, .allow = route.allow};
  }
  if (!is_allowed(route, request.method)) {
    Reply reply = error_reply(http_error(405, std::string(route.name) + " takes " + std::string(route.allow) +
                                                  ", not " + std::string(method_label(request.method))));
    reply.allow = route.allow;
    return reply;
  }
  return dispatch(request, route, door, *tenant, access);
}

Service::Handled Service::dispatch(const HttpRequest& request, const RouteMatch& route, Door door,
                                   const std::string& tenant, const Access& access) {
  switch (route.route) {
    case Route::kChatCompletions: return generation(request, route.route, ResponseShape::kChat, tenant);
    case Route::kCompletions: return generation(request, route.route, ResponseShape::kCompletion, tenant);
    case Route::kResponses: return generation(request, route.route, ResponseShape::kResponse, tenant);
    case Route::kEmbeddings:
    case Route::kClassify:
    case Route::kScore:
    case Route::kRerank:
    case Route::kOllamaEmbed:
    case Route::kOllamaEmbeddings: return embedding(request, route.route, tenant);
    case Route::kOllamaChat: return generation(request, route.route, ResponseShape::kOllamaChat, tenant);
    case Route::kOllamaGenerate:
      return generation(request, route.route, ResponseShape::kOllamaGenerate, tenant);
    case Route::kOllamaRoot:
      return Reply{.content_type = "text/plain; charset=utf-8", .body = "Ollama is running"};
    case Route::kOllamaVersion: return Reply{.body = "{\"version\":" + json_string(kOllamaVersion) + "}"};
    case Route::kOllamaTags: return Reply{.body = ollama_tags_json(models_)};
    case Route::kOllamaRunning: return Reply{.body = ollama_running_json(models_)};
    case Route::kOllamaShow: return show(request.body);
    case Route::kMessages: return generation(request, route.route, ResponseShape::kMessage, tenant);
    case Route::kCountTokens:
    case Route::kTokenize:
    case Route::kDetokenize: return tokens(request, route.route, tenant);
    case Route::kResponse:
    case Route::kCancelResponse:
    case Route::kAnswerStream:
    case Route::kInputItems: return stored(request, route, tenant);
    case Route::kModels: return Reply{.body = model_list_json(models_.all())};
    case Route::kModel: return model(route.rest);
    case Route::kHealth: return health(!tenant_of(request, access));
    case Route::kReady: return readiness(!tenant_of(request, access));
    case Route::kLive:
    case Route::kPing: return Reply{.body = "{\"status\":\"ok\"}"};
    case Route::kMetrics:
      return metrics(request.accept, door == Door::kMetrics ? std::nullopt : std::optional(tenant));
    case Route::kTraces:
      return traces(route.query, door == Door::kMetrics ? std::nullopt : std::optional(tenant));
    case Route::kVersion: return Reply{.body = "{\"version\":" + json_string(options_.version) + "}"};
    case Route::kOpenApi: return Reply{.body = openapi_json(options_.version)};
    case Route::kPage: return page(request, route);
    case Route::kUnknown: break;
  }
  return error_reply(nothing_here(request.target));
}

// Only where no key is asked for: a page does not have one. Programs send no
// Origin and any Host that they were told, so a name that is not loopback's has
// to be allowed. A request under an untrusted name is refused before its Origin is
// compared with that name: both may be a rebinding page's.
std::optional<HttpError> Service::refuse_web_page(const HttpRequest& request, const Access& access,
                                                  Door door) {
  if (!access.api_keys.empty() && door != Door::kMetrics) return std::nullopt;
  const bool has_host = !request.host.empty() || !request.is_http_1_0;
  const bool checks_host = access.checks_host || door == Door::kMetrics;
  if (checks_host && has_host && !access.hosts.trusts_host(request.host))
    return http_error(421,
                      "without an API key only requests for localhost or this server's address are "
                      "answered, not for " +
                          shown(request.host) + "; --allowed-hosts names others");
  const bool is_foreign = !request.origin.empty() && !access.hosts.allows_origin(request.origin) &&
                          !TrustedHosts::is_same_origin(request.origin, request.host);
  if (is_foreign && changes_state(request.method))
    return http_error(403, "pages of " + shown(request.origin) +
                               " may not use this server; --cors-origins names those that may");
  return std::nullopt;
}

RequestOrigin Service::origin_of(const HttpRequest& request, const RouteMatch& route,
                                 std::chrono::steady_clock::time_point received) {
  RequestOrigin origin{
      .request_id = checked_request_id(request.request_id, options_.limits.max_request_id_bytes),
      .trace = {},
      .parent = 0,
      .tracestate = {},
      .method = method_label(request.method),
      .path = route.name,
      .is_stream = false,
      .received = received};
  if (origin.request_id.empty()) origin.request_id = "req-" + hex_of(system_random());
  if (const auto caller = parse_traceparent(request.traceparent)) {
    origin.trace = *caller;  // its decision about sampling too
    origin.parent = caller->span;
    origin.tracestate = checked_tracestate(request.tracestate);
  } else {
    origin.trace.trace = draw_trace_id();
    origin.trace.is_sampled = options_.tracer != nullptr && options_.tracer->samples(origin.trace.trace);
  }
  origin.trace.span = draw_span_id();
  return origin;
}

ResponseContext Service::context_for(const HttpRequest& request, const RequestOrigin& origin,
                                     const Access& access) {
  ResponseContext context;
  context.request_id = origin.request_id;
  context.traceresponse = format_traceparent(origin.trace);
  if (const auto* allowed = access.hosts.allows_origin(request.origin)) {
    context.cors_origin = *allowed;
  } else if (!request.origin.empty() && !TrustedHosts::is_same_origin(request.origin, request.host)) {
    note_foreign_page(request.origin);
  }
  context.keep_alive = request.keep_alive;
  context.is_http_1_0 = request.is_http_1_0;
  context.is_head = request.method == "HEAD";
  return context;
}

// The first one only: the browser tells its user no more than that the request failed.
void Service::note_foreign_page(std::string_view origin) {
  if (has_noted_foreign_page_.exchange(true)) return;
  log(LogLevel::kWarning, "a browser hides the answer from a page of another origin",
      {{"origin", shown(origin)}, {"allowed_by", "--cors-origins"}});
}

// Compares with every key: how long that takes tells nothing of which fits.
std::optional<std::string> Service::tenant_of(const HttpRequest& request, const Access& access) {
  if (access.api_keys.empty()) return std::string();
  const std::string_view given = key_of(request);
  if (given.empty()) return std::nullopt;
  const KeyDigest key(given);
  std::optional<std::string> tenant;
  for (const auto& entry : access.api_keys) {
    if (key == entry.key) tenant = entry.tenant;
  }
  return tenant;
}

// Browsers ask before they send; the official client adds fields of its own,
// so what it asks for is what it may send.
Reply Service::preflight(const HttpRequest& request, const RouteMatch& route) const {
  const std::string_view asked = request.cors_headers;
  const bool is_plain = std::all_of(asked.begin(), asked.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == ',' || c == ' ';
  });
  if (!is_plain || asked.size() > kMaxCorsHeadersBytes) {
    return error_reply(http_error(400, "Access-Control-Request-Headers is not understood"));
  }
  return Reply{.status = 204, .body = {}, .allow = route.allow, .cors_headers = request.cors_headers};
}

// What is wrong with the request for a model before its body is read.
std::optional<Reply> Service::refuse_inference(const HttpRequest& request, Route route) const {
  if (is_draining_) {
    metrics_.refused_draining.add();
    return unavailable("the server is shutting down");
  }
  // Ollama's documents ask with curl -d, which says that JSON is a form.
  if (is_ollama_inference(route) || is_json(request.content_type)) return std::nullopt;
  metrics_.refused_invalid.add();
  return error_reply(http_error(415, "send JSON, with Content-Type: application/json"));
}

Reply Service::refuse_body(const ApiError& error) const {
  metrics_.refused_invalid.add();
  return error_reply(to_http_error(error));
}

std::optional<Reply> Service::open_tab(const std::string& tenant, std::shared_ptr<TenantTab>& tab) const {
  const auto account = account_of(tenant);
  if (!account) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  auto opened = account->open(now);
  if (auto* own = std::get_if<std::shared_ptr<TenantTab>>(&opened)) {
    tab = std::move(*own);
    return std::nullopt;
  }
  metrics_.refused_rate.add();
  Reply reply = error_reply(to_http_error(std::get<ApiError>(opened)));
  reply.more_fields = limit_fields(account->look(now));
  return reply;
}

Service::Handled Service::generation(const HttpRequest& request, Route route, ResponseShape shape,
                                     const std::string& tenant) {
  if (auto refusal = refuse_inference(request, route)) return std::move(*refusal);
  auto parsed = parser_of(shape)(request.body, models_, options_.limits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse_body(*error);
  auto& generation = std::get<ApiRequest>(parsed);
  if (generation.generation.background)
    generation.generation.background =
        std::make_shared<const BackgroundRun>(BackgroundRun{.body = request.body, .seed = system_random()});
  if (generation.only_loads)
    return Reply{
        .body = ollama_loaded_json(
            {.id = {}, .created = unix_seconds(), .model = generation.called_model, .shape = shape})};
  if (auto refusal = open_tab(tenant, generation.generation.tab)) return std::move(*refusal);
  complete(generation, tenant);
  return std::move(generation);
}

Service::Handled Service::embedding(const HttpRequest& request, Route route, const std::string& tenant) {
  if (auto refusal = refuse_inference(request, route)) return std::move(*refusal);
  auto parsed = vector_parser_of(route)(request.body, models_, options_.limits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse_body(*error);
  auto& embedding = std::get<ApiEmbeddingRequest>(parsed);
  if (embedding.only_loads) {
    const ServedModelInfo& model = models_[embedding.embedding.model];
    return embedding_reply(std::move(embedding), model, {}, {});
  }
  if (auto refusal = open_tab(tenant, embedding.embedding.tab)) return std::move(*refusal);
  embedding.id = embedding.embedding.id = draw_id(id_prefix(embedding.use));
  embedding.created = unix_seconds();
  embedding.embedding.tenant = embedding.embedding.flow = tenant;
  return std::move(embedding);
}

Service::Handled Service::tokens(const HttpRequest& request, Route route, const std::string& tenant) {
  if (auto refusal = refuse_inference(request, route)) return std::move(*refusal);
  auto parsed = token_parser_of(route)(request.body, models_, options_.limits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse_body(*error);
  auto& tokens = std::get<ApiTokenRequest>(parsed);
  tokens.generation.id = draw_id("tok-");
  tokens.generation.tenant = tokens.generation.flow = tenant;
  return std::move(tokens);
}

// Adds what does not come from the body: ids, times, the tenant.
void Service::complete(ApiRequest& request, const std::string& tenant) {
  GenerationRequest& generation = request.generation;
  generation.id = draw_id(id_prefix(request.shape));
  generation.tenant = generation.flow = tenant;
  divide_cache(generation, tenant);
  if (!generation.turn) return;
  auto turn = std::make_shared<ConversationTurn>(*generation.turn);
  turn->created = unix_seconds();
  generation.turn = std::move(turn);
}

void Service::divide_cache(GenerationRequest& generation, const std::string& tenant) const {
  generation.cache_salt = salt_of(tenant, generation.cache_salt);
  if (const auto account = account_of(tenant)) generation.cache_quota = account->cache_quota();
}

std::variant<ApiRequest, ApiError> Service::request_of(const InterruptedAnswer& answer) const {
  auto parsed = parse_responses_request(answer.body, models_.hearing_lengths(), options_.limits);
  auto* request = std::get_if<ApiRequest>(&parsed);
  if (request == nullptr) return parsed;
  GenerationRequest& generation = request->generation;
  generation.id = answer.id;
  generation.tenant = answer.tenant;
  generation.flow = answer.flow;
  divide_cache(generation, answer.tenant);
  auto turn = std::make_shared<ConversationTurn>(*generation.turn);
  turn->created = answer.created;
  generation.turn = std::move(turn);
  generation.background =
      std::make_shared<const BackgroundRun>(BackgroundRun{.body = answer.body,
                                                          .seed = answer.seed,
                                                          .is_journaled = true,
                                                          .tokens = answer.tokens,
                                                          .vocabulary = answer.vocabulary,
                                                          .unbound_from = answer.unbound_from});
  generation.origin.request_id = "req-" + hex_of(system_random());
  return parsed;
}

Service::Handled Service::stored(const HttpRequest& request, const RouteMatch& route,
                                 const std::string& tenant) const {
  if (!is_id(route.rest)) return error_reply(nothing_here(request.target));
  StoredRequest stored{.query = {.kind = StoreQuery::Kind::kFind,
                                 .tenant = tenant,
                                 .cache_salt = salt_of(tenant, ""),
                                 .response = std::string(route.rest)}};
  if (request.method == "DELETE") {
    stored.query.kind = StoreQuery::Kind::kRemove;
    stored.answer = StoredRequest::Answer::kDeleted;
  } else if (route.route == Route::kInputItems) {
    stored.answer = StoredRequest::Answer::kInputItems;
    const auto page = parse_item_page(route.query);
    if (const auto* error = std::get_if<ApiError>(&page)) return error_reply(to_http_error(*error));
    stored.page = std::get<ItemPage>(page);
  } else if (route.route == Route::kCancelResponse) {
    stored.answer = StoredRequest::Answer::kCancelled;
  } else {
    const auto events = parse_event_page(route.query, request.last_event_id);
    if (const auto* error = std::get_if<ApiError>(&events)) return error_reply(to_http_error(*error));
    const auto& page = std::get<EventPage>(events);
    if ((page.is_stream && request.method == "GET") || route.route == Route::kAnswerStream)
      stored.answer = StoredRequest::Answer::kEvents;
    stored.after = page.after;
  }
  return stored;
}

Reply Service::model(std::string_view id) const {
  // An alias stands for what a chat with it would get, where there is one that chats.
  auto chosen = models_.choose(std::string(id), ModelTask::kGenerate);
  if (std::holds_alternative<ApiError>(chosen)) chosen = models_.choose(std::string(id), std::nullopt);
  if (const auto* index = std::get_if<ModelIndex>(&chosen)) return Reply{.body = model_json(models_[*index])};
  HttpError error = http_error(404, "there is no such model; this server has " + models_.names());
  error.code = "model_not_found";
  error.field = "model";
  return error_reply(error);
}

Reply Service::show(std::string_view body) const {
  const auto parsed = parse_ollama_show_request(body, models_, options_.limits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return error_reply(to_http_error(*error));
  return Reply{.body = ollama_show_json(models_[std::get<ModelIndex>(parsed)])};
}

Reply Service::page(const HttpRequest& request, const RouteMatch& route) const {
  auto reply = page_reply(route.rest, request.if_none_match);
  return reply ? std::move(*reply) : error_reply(nothing_here(request.target));
}

// Healthy means: everything that can make progress does, or will without help. Only
// otherwise is a restart of any use.
Reply Service::health(bool is_stranger) const {
  const EngineStatus status = engine_.status();
  const bool works = status.state == EngineState::kReady || status.state == EngineState::kDraining;
  const bool heals = status.trouble == Trouble::kNone || status.trouble == Trouble::kReplacingDevice;
  if (works && heals) return Reply{.body = status_json("ok", status, is_stranger)};
  Reply reply = unavailable("");
  reply.body = status_json(works ? "stuck" : name_of(status.state), status, is_stranger);
  reply.error.reset();  // a state in every API's shape
  return reply;
}

// Ready means: send requests here, there is a device that works.
bool Service::is_ready(const EngineStatus& status) const {
  return status.state == EngineState::kReady && status.trouble == Trouble::kNone && !is_draining_;
}

Reply Service::readiness(bool is_stranger) const {
  const EngineStatus status = engine_.status();
  if (is_ready(status)) return Reply{.body = status_json("ready", status, is_stranger)};
  Reply reply = unavailable("");
  std::string_view why = is_draining_ ? "draining" : name_of(status.state);
  if (!is_draining_ && status.state == EngineState::kReady) why = name_of(status.trouble);
  reply.body = status_json(why, status, is_stranger);
  reply.error.reset();
  return reply;
}

Reply Service::metrics(std::string_view accept, const std::optional<std::string>& tenant) const {
  metrics_.ready.set(is_ready(engine_.status()) ? 1 : 0);
  const ExpositionFormat format = choose_exposition(accept);
  return Reply{.content_type = content_type(format),
               .body = tenant ? metrics_.expose_to(*tenant, format) : metrics_.expose(format)};
}

Reply Service::traces(std::string_view query, std::optional<std::string> tenant) const {
  if (options_.tracer == nullptr || !options_.tracer->recent().keeps_any())
    return error_reply(http_error(404, "no spans are kept in memory; --trace-recent-requests says how many"));
  auto parsed = parse_trace_query(query);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return error_reply(to_http_error(*error));
  auto& wanted = std::get<RecentQuery>(parsed);
  wanted.tenant = std::move(tenant);
  return Reply{.body = OtlpJson(TraceSource{.version = options_.version})
                           .request_of(options_.tracer->recent().find(wanted))};
}

Reply error_reply(const HttpError& error) {
  return Reply{.status = error.status,
               .body = error_json(error),
               .retry_after_s = error.retry_after_s,
               .error = error};
}

Reply stored_reply(const StoredRequest& request, const StoreAnswer& answer) {
  if (request.answer == StoredRequest::Answer::kDeleted)
    return Reply{.body = deleted_json(request.query.response)};
  const StoredResponse& response = *answer.response;
  if (request.answer == StoredRequest::Answer::kInputItems)
    return Reply{.body = input_items_json(response, request.page)};
  const Usage usage{.prompt_tokens = response.prompt_tokens,
                    .completion_tokens = response.completion_tokens,
                    .cached_tokens = response.cached_tokens};
  Reply reply;
  AnswerJson json(reply.body);
  struct Kept {
    std::shared_ptr<const StoredResponse> response;
    AnswerItems answer;
  };
  const auto kept =
      std::make_shared<const Kept>(Kept{.response = answer.response, .answer = answer_of(response)});
  append_response_object(json, view_of(response, kept->answer, usage));
  if (json.has_gaps()) reply.long_body = json.take(kept);
  return reply;
}

namespace {

// Of classes, scores and ranks.
Reply score_reply(ApiEmbeddingRequest request, const ServedModelInfo& model, Embedded answer) {
  Reply reply;
  AnswerJson json(reply.body);
  struct Kept {
    ApiEmbeddingRequest request;
    Embedded answer;  // counted until the client has read it
  };
  const auto owner =
      std::make_shared<const Kept>(Kept{.request = std::move(request), .answer = std::move(answer)});
  switch (owner->request.use) {
    case VectorUse::kClasses: append_classes(json, owner->request, model, owner->answer); break;
    case VectorUse::kScores: append_scores(json, owner->request, model, owner->answer); break;
    default: append_ranks(json, owner->request, model, owner->answer);
  }
  // Counting the bytes of many nodes would be to write them all at once.
  reply.is_counted = owner->request.use != VectorUse::kClasses;
  if (json.has_gaps()) reply.long_body = json.take(owner);
  return reply;
}

}  // namespace

Reply embedding_reply(ApiEmbeddingRequest request, const ServedModelInfo& model, Embedded answer,
                      std::chrono::nanoseconds duration) {
  // JSON has no other numbers.
  if (!std::all_of(answer.vectors.begin(), answer.vectors.end(), [](float x) { return std::isfinite(x); }))
    return error_reply(http_error(500, "the model gave vectors that are not finite"));
  if (!gives_vectors(request.use)) return score_reply(std::move(request), model, std::move(answer));
  const auto owner = std::make_shared<const Embedded>(std::move(answer));
  const auto& vectors = owner->vectors;
  const EmbeddingView view{
      .vectors = vectors,
      .size = owner->size,
      .dimensions = request.dimensions == 0 ? owner->size : std::min(request.dimensions, owner->size),
      .format = request.format};
  Reply reply{.is_counted = false};
  AnswerJson json(reply.body);
  if (request.use == VectorUse::kOllamaVectors) {
    append_ollama_vectors(json, request.called_model, view, owner->prompt_tokens, duration);
  } else if (request.use == VectorUse::kOllamaVector) {
    append_ollama_vector(reply.body, view);
  } else {
    append_embedding_list(json, model.name, view, owner->prompt_tokens);
  }
  if (json.has_gaps()) reply.long_body = json.take(owner);
  return reply;
}

}  // namespace troupe
