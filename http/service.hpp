// SPDX-License-Identifier: Apache-2.0
// What a complete request leads to: an answer at once, or a generation to
// start. Knows the API and the engine, nothing of sockets. All methods may be
// called from any io thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "actors/engine.hpp"
#include "http/error_response.hpp"
#include "http/input_items.hpp"
#include "http/openai_api.hpp"
#include "http/request_parser.hpp"
#include "http/response_writer.hpp"
#include "http/router.hpp"
#include "http/server.hpp"

namespace troupe {

// A question for the store, and what is to be made of its answer.
struct StoredRequest {
  enum class Answer : std::uint8_t { kResponse, kInputItems, kDeleted };
  StoreQuery query;
  Answer answer = Answer::kResponse;
  ItemPage page = {};
};

class Service {
 public:
  Service(Engine& engine, Metrics& metrics, const ServedModelInfo& model, const ServerOptions& options);

  // A generation comes back with its id set.
  using Handled = std::variant<Reply, ApiRequest, StoredRequest>;
  Handled handle(const HttpRequest& request, const RouteMatch& route);

  // The fields of the answer that follow from the request.
  ResponseContext context_for(const HttpRequest& request, const RequestOrigin& origin);

  // What the request is known by; continues the caller's trace if it sent one.
  RequestOrigin origin_of(const HttpRequest& request, const RouteMatch& route,
                          std::chrono::steady_clock::time_point received);

  void start_draining() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }

  Engine& engine() const { return engine_; }
  Metrics& metrics() const { return metrics_; }
  const ServedModelInfo& model() const { return model_; }
  const ServerOptions& options() const { return options_; }

 private:
  std::optional<std::string> tenant_of(const HttpRequest& request) const;
  std::string allowed_origin(const std::string& origin) const;
  Reply preflight(const HttpRequest& request, const RouteMatch& route) const;
  Handled dispatch(const HttpRequest& request, const RouteMatch& route, const std::string& tenant);
  Handled generation(const HttpRequest& request, ResponseShape shape, const std::string& tenant);
  void complete(ApiRequest& request, const std::string& tenant);
  Handled stored(const HttpRequest& request, const RouteMatch& route, const std::string& tenant) const;
  Reply model(std::string_view id) const;
  Reply health() const;
  bool is_ready(const EngineStatus& status) const;
  Reply readiness() const;
  Reply metrics(std::string_view accept) const;
  std::uint64_t random();

  Engine& engine_;
  Metrics& metrics_;
  const ServedModelInfo& model_;
  const ServerOptions& options_;
  std::atomic<bool> is_draining_ = false;
  std::atomic<std::uint64_t> random_state_;
  TraceIds trace_ids_;
};

Reply error_reply(const HttpError& error);
Reply stored_reply(const StoredRequest& request, const StoreAnswer& answer);

}  // namespace troupe
