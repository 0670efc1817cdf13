// SPDX-License-Identifier: Apache-2.0
// Leads a complete request to its answer at once, or to a generation to
// start. Knows the API and the engine, nothing of sockets. All methods may be
// called from any io thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/engine.hpp"
#include "http/api/answers/error_response.hpp"
#include "http/api/answers/input_items.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/routing/router.hpp"
#include "http/routing/tenant_accounts.hpp"
#include "http/routing/trusted_hosts.hpp"
#include "http/server/server.hpp"
#include "http/wire/request_parser.hpp"
#include "http/wire/response_writer.hpp"

namespace troupe {

// A question for the store, and what is to be made of its answer.
struct StoredRequest {
  // kCancelled: the response, which runs no longer; kEvents: its stream, of an answer that
  // goes on without its clients.
  enum class Answer : std::uint8_t { kResponse, kInputItems, kDeleted, kCancelled, kEvents };
  StoreQuery query;
  Answer answer = Answer::kResponse;
  ItemPage page = {};
  bool may_be_missing = false;  // of kDeleted: it has just been cancelled
  std::int64_t after = -1;      // of kEvents: the last event that the client has; -1: none
};

class Service {
 public:
  Service(Engine& engine, Metrics& metrics, const ServedModels& models, const ServerOptions& options);

  // Keys, origins and hosts: of the options, or of replace_access(). A request is judged by one.
  struct Access {
    std::vector<ApiKey> api_keys;
    TrustedHosts hosts;
    bool checks_host;  // on all ports
  };
  // In force now.
  std::shared_ptr<const Access> access() const;

  // A request for a model comes back with its id set.
  using Handled = std::variant<Reply, ApiRequest, ApiEmbeddingRequest, ApiTokenRequest, StoredRequest>;
  Handled handle(const HttpRequest& request, const RouteMatch& asked, Door door, const Access& access);

  // The request that was interrupted, to be gone on with; an error if it can't be answered
  // any more, as when its model is gone.
  std::variant<ApiRequest, ApiError> request_of(const InterruptedAnswer& answer) const;

  // The fields of the answer that follow from the request.
  ResponseContext context_for(const HttpRequest& request, const RequestOrigin& origin, const Access& access);

  // The ids that the request is known by; continues the caller's trace if it sent one.
  RequestOrigin origin_of(const HttpRequest& request, const RouteMatch& route,
                          std::chrono::steady_clock::time_point received);

  // As Server::replace_access().
  void replace_access(const ServerOptions& options);

  // Null: no key is the tenant's.
  std::shared_ptr<TenantAccount> account_of(const std::string& tenant) const {
    return accounts_.find(tenant);
  }

  void start_draining() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }

  Engine& engine() const { return engine_; }
  Metrics& metrics() const { return metrics_; }
  const ServedModels& models() const { return models_; }
  const ServerOptions& options() const { return options_; }

 private:
  static std::shared_ptr<const Access> make_access(const ServerOptions& options);

  static std::optional<std::string> tenant_of(const HttpRequest& request, const Access& access);
  static std::optional<HttpError> refuse_web_page(const HttpRequest& request, const Access& access,
                                                  Door door);
  void note_foreign_page(std::string_view origin);
  Reply preflight(const HttpRequest& request, const RouteMatch& route) const;
  Handled dispatch(const HttpRequest& request, const RouteMatch& route, Door door, const std::string& tenant,
                   const Access& access);
  std::optional<Reply> refuse_inference(const HttpRequest& request, Route route) const;
  Reply refuse_body(const ApiError& error) const;
  // Nothing: it is let in, and `tab` is its own; null where nothing is counted.
  std::optional<Reply> open_tab(const std::string& tenant, std::shared_ptr<TenantTab>& tab) const;
  Handled generation(const HttpRequest& request, Route route, ResponseShape shape, const std::string& tenant);
  Handled embedding(const HttpRequest& request, Route route, const std::string& tenant);
  Handled tokens(const HttpRequest& request, Route route, const std::string& tenant);
  void complete(ApiRequest& request, const std::string& tenant);
  void divide_cache(GenerationRequest& generation, const std::string& tenant) const;
  Handled stored(const HttpRequest& request, const RouteMatch& route, const std::string& tenant) const;
  Reply model(std::string_view id) const;
  Reply show(std::string_view body) const;
  // A stranger has no key where there are some.
  Reply health(bool is_stranger) const;
  bool is_ready(const EngineStatus& status) const;
  Reply readiness(bool is_stranger) const;
  // tenant: the caller; nothing: the operator.
  Reply metrics(std::string_view accept, const std::optional<std::string>& tenant) const;
  Reply traces(std::string_view query, std::optional<std::string> tenant) const;
  Reply page(const HttpRequest& request, const RouteMatch& route) const;

  Engine& engine_;
  Metrics& metrics_;
  const ServedModels& models_;
  const ServerOptions& options_;
  TenantAccounts accounts_;
  std::atomic<bool> is_draining_ = false;
  std::atomic<bool> has_noted_foreign_page_ = false;
  mutable std::mutex access_mutex_;
  std::shared_ptr<const Access> access_;
};

Reply error_reply(const HttpError& error);
Reply stored_reply(const StoredRequest& request, const StoreAnswer& answer);
// request: without its inputs; duration: since its first byte came. An error if the vectors are no
// numbers.
Reply embedding_reply(ApiEmbeddingRequest request, const ServedModelInfo& model, Embedded answer,
                      std::chrono::nanoseconds duration);

}  // namespace troupe
