// SPDX-License-Identifier: Apache-2.0
#include "http/service.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "http/framing.hpp"
#include "http/json_text.hpp"
#include "http/response_json.hpp"
#include "http/response_object.hpp"
#include "telemetry/metrics.hpp"
#include "telemetry/tracer.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxCorsHeadersBytes = 1024;
constexpr std::size_t kMaxResponseIdBytes = 128;

// Takes the same time wherever the two differ.
bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference |= static_cast<unsigned char>(given[i] ^ other);
  }
  return difference == 0;
}

std::string hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = out.size(); i > 0; --i, number >>= 4) out[i - 1] = kDigits[number & 15];
  return out;
}

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return equal_ignoring_case(type, "application/json");
}

bool is_generation(Route route) {
  return route == Route::kChatCompletions || route == Route::kCompletions || route == Route::kResponses;
}

auto parser_of(ResponseShape shape) {
  switch (shape) {
    case ResponseShape::kChat: return parse_chat_request;
    case ResponseShape::kCompletion: return parse_completion_request;
    case ResponseShape::kResponse: break;
  }
  return parse_responses_request;
}

std::string_view id_prefix(ResponseShape shape) {
  switch (shape) {
    case ResponseShape::kChat: return "chatcmpl-";
    case ResponseShape::kCompletion: return "cmpl-";
    case ResponseShape::kResponse: break;
  }
  return "resp_";
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

std::string_view name_of(EngineState state) {
  constexpr std::array<std::string_view, 5> kNames = {"loading", "ready", "draining", "failed", "stopped"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string status_json(std::string_view status, const EngineStatus& engine) {
  std::string out = "{\"status\":" + json_string(status);
  out += ",\"engine\":" + json_string(name_of(engine.state));
  out += ",\"requests_running\":";
  append_json_integer(out, engine.num_running);
  out += ",\"requests_waiting\":";
  append_json_integer(out, engine.num_waiting);
  out += "}";
  return out;
}

Reply unavailable(std::string why) { return error_reply(http_error(503, std::move(why))); }

}  // namespace

Service::Service(Engine& engine, Metrics& metrics, const ServedModelInfo& model, const ServerOptions& options)
    : engine_(engine), metrics_(metrics), model_(model), options_(options) {
  std::random_device device;
  random_state_ = (std::uint64_t{device()} << 32) | device();
}

Service::Handled Service::handle(const HttpRequest& request, const RouteMatch& route) {
  const bool is_preflight = request.method == "OPTIONS" && !request.cors_headers.empty();
  if (is_preflight && !allowed_origin(request.origin).empty()) return preflight(request, route);
  const auto tenant = route.is_public ? std::string() : tenant_of(request);
  if (!tenant) {
    if (is_generation(route.route)) metrics_.refused_unauthorized.add();
    return error_reply(http_error(401, "an API key is required: Authorization: Bearer <key>"));
  }
  if (route.route == Route::kUnknown) {
    return error_reply(http_error(404, "there is nothing at this path"));
  }
  if (request.method == "OPTIONS") {
    return Reply{.status = 204, .body = {}, .allow = route.allow};
  }
  if (!is_allowed(route, request.method)) {
    Reply reply =
        error_reply(http_error(405, "this path takes " + std::string(route.allow) + ", not this method"));
    reply.allow = route.allow;
    return reply;
  }
  return dispatch(request, route, *tenant);
}

Service::Handled Service::dispatch(const HttpRequest& request, const RouteMatch& route,
                                   const std::string& tenant) {
  switch (route.route) {
    case Route::kChatCompletions: return generation(request, ResponseShape::kChat, tenant);
    case Route::kCompletions: return generation(request, ResponseShape::kCompletion, tenant);
    case Route::kResponses: return generation(request, ResponseShape::kResponse, tenant);
    case Route::kResponse:
    case Route::kInputItems: return stored(request, route, tenant);
    case Route::kModels: return Reply{.body = model_list_json(model_)};
    case Route::kModel: return model(route.rest);
    case Route::kHealth: return health();
    case Route::kReady: return readiness();
    case Route::kLive:
    case Route::kPing: return Reply{.body = "{\"status\":\"ok\"}"};
    case Route::kMetrics: return metrics(request.accept);
    case Route::kVersion: return Reply{.body = "{\"version\":" + json_string(options_.version) + "}"};
    case Route::kUnknown: break;
  }
  return error_reply(http_error(404, "there is nothing at this path"));
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
  if (origin.request_id.empty()) origin.request_id = "req-" + hex(random());
  if (const auto caller = parse_traceparent(request.traceparent)) {
    origin.trace = *caller;  // its decision about sampling too
    origin.parent = caller->span;
    origin.tracestate = checked_tracestate(request.tracestate);
  } else {
    origin.trace.trace = trace_ids_.next_trace();
    origin.trace.is_sampled = options_.tracer != nullptr && options_.tracer->samples(origin.trace.trace);
  }
  origin.trace.span = trace_ids_.next_span();
  return origin;
}

ResponseContext Service::context_for(const HttpRequest& request, const RequestOrigin& origin) {
  ResponseContext context;
  context.request_id = origin.request_id;
  context.traceresponse = format_traceparent(origin.trace);
  context.cors_origin = allowed_origin(request.origin);
  context.keep_alive = request.keep_alive;
  context.is_http_1_0 = request.is_http_1_0;
  context.is_head = request.method == "HEAD";
  return context;
}

// Compares with every key: how long that takes tells nothing of which fits.
std::optional<std::string> Service::tenant_of(const HttpRequest& request) const {
  if (options_.api_keys.empty()) return std::string();
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given = request.authorization;
  if (given.size() <= kScheme.size() || !equal_ignoring_case(given.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  std::optional<std::string> tenant;
  for (const auto& entry : options_.api_keys) {
    if (equal_in_constant_time(given.substr(kScheme.size()), entry.key)) tenant = entry.tenant;
  }
  return tenant;
}

// The origin as it goes into the answer; empty if it may not read it.
std::string Service::allowed_origin(const std::string& origin) const {
  if (origin.empty()) return {};
  for (const auto& allowed : options_.cors_origins) {
    if (allowed == "*" || allowed == origin) return allowed;
  }
  return {};
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

Service::Handled Service::generation(const HttpRequest& request, ResponseShape shape,
                                     const std::string& tenant) {
  if (is_draining_) {
    metrics_.refused_draining.add();
    return unavailable("the server is shutting down");
  }
  if (!is_json(request.content_type)) {
    metrics_.refused_invalid.add();
    return error_reply(http_error(415, "send JSON, with Content-Type: application/json"));
  }
  auto parsed = parser_of(shape)(request.body, model_, options_.limits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    metrics_.refused_invalid.add();
    return error_reply(to_http_error(*error));
  }
  auto& generation = std::get<ApiRequest>(parsed);
  complete(generation, tenant);
  return std::move(generation);
}

// What does not come from the body: ids, times, whose it is.
void Service::complete(ApiRequest& request, const std::string& tenant) {
  GenerationRequest& generation = request.generation;
  generation.id = std::string(id_prefix(request.shape)) + hex(random()) + hex(random());
  generation.tenant = tenant;
  generation.cache_salt = salt_of(tenant, generation.cache_salt);
  if (!generation.turn) return;
  auto turn = std::make_shared<ConversationTurn>(*generation.turn);
  turn->created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  generation.turn = std::move(turn);
}

Service::Handled Service::stored(const HttpRequest& request, const RouteMatch& route,
                                 const std::string& tenant) const {
  if (!is_id(route.rest)) return error_reply(http_error(404, "there is nothing at this path"));
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
  }
  return stored;
}

Reply Service::model(std::string_view id) const {
  if (id == model_.name) return Reply{.body = model_json(model_)};
  HttpError error = http_error(404, "there is no such model; this server has \"" + model_.name + "\"");
  error.code = "model_not_found";
  error.field = "model";
  return error_reply(error);
}

// Healthy means: tokens move when there is work.
Reply Service::health() const {
  const EngineStatus status = engine_.status();
  const bool works = status.state == EngineState::kReady || status.state == EngineState::kDraining;
  if (works && status.tokens_move) return Reply{.body = status_json("ok", status)};
  Reply reply = unavailable("");
  reply.body = status_json(works ? "stuck" : name_of(status.state), status);
  return reply;
}

// Ready means: send requests here.
bool Service::is_ready(const EngineStatus& status) const {
  return status.state == EngineState::kReady && status.tokens_move && !is_draining_;
}

Reply Service::readiness() const {
  const EngineStatus status = engine_.status();
  if (is_ready(status)) return Reply{.body = status_json("ready", status)};
  Reply reply = unavailable("");
  reply.body = status_json(is_draining_ ? "draining" : name_of(status.state), status);
  return reply;
}

Reply Service::metrics(std::string_view accept) const {
  metrics_.ready.set(is_ready(engine_.status()) ? 1 : 0);
  const ExpositionFormat format = choose_exposition(accept);
  return Reply{.content_type = content_type(format), .body = metrics_.expose(format)};
}

// splitmix64 over a counter: distinct for every call in this process.
std::uint64_t Service::random() {
  std::uint64_t z = random_state_.fetch_add(0x9E3779B97F4A7C15ULL) + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

Reply error_reply(const HttpError& error) {
  return Reply{.status = error.status, .body = error_json(error), .retry_after_s = error.retry_after_s};
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
  append_response_object(reply.body, view_of(response, usage));
  return reply;
}

}  // namespace troupe
