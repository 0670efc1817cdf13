// SPDX-License-Identifier: Apache-2.0
#include "http/server/server.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>

#include "http/routing/service.hpp"
#include "http/server/answers_under_way.hpp"
#include "http/server/detached_answers.hpp"
#include "http/server/listener.hpp"
#include "http/server/shard.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kTimeToSayGoodbye{1000};
// In place of those of a request that can't be read any more.
constexpr std::string_view kUnknownSettings =
    R"("tool_choice":"auto","parallel_tool_calls":true,"metadata":{},"background":true)";

// made: null, or the one that listens already.
ListeningSocket socket_of(const ServerOptions& options, const std::shared_ptr<ListeningSocket>& made,
                          std::uint16_t port) {
  if (made) return std::move(*made);
  return {options.host, port, options.limits.listen_backlog};
}

// What can't be done is told to who asks for it. Its journal stays if the model is missing, with which it
// may be possible again; a body that this server does not accept is not asked again.
void take_up(const Service& service, DetachedAnswers& detached, const InterruptedAnswer& answer) {
  DetachedAnswer::About about;
  about.id = answer.id;
  about.tenant = answer.tenant;
  about.flow = answer.flow;
  about.created = answer.created;
  about.turn = std::make_shared<const ConversationTurn>(
      ConversationTurn{.created = answer.created, .settings = std::string(kUnknownSettings)});
  about.is_background = true;
  about.is_known = true;
  auto request = service.request_of(answer);
  if (const auto* error = std::get_if<ApiError>(&request)) {
    log(LogLevel::kWarning, "an interrupted response can't be gone on with",
        {{"response", answer.id}, {"reason", error->message}});
    const bool lacks_model = error->kind == ApiErrorKind::kModelNotFound || error->field == "model";
    if (!lacks_model) service.engine().end_journal(answer.id);
    return detached.fail(std::move(about), *error);
  }
  auto& generation = std::get<ApiRequest>(request);
  GenerationRequest own = std::exchange(generation.generation, {});
  about.request = std::move(generation);
  about.model = own.model;
  about.turn = own.turn;
  if (answer.is_given_up)
    return detached.fail(std::move(about),
                         {.kind = ApiErrorKind::kInternal,
                          .message = "The server ended again and again while it worked on this."});
  log(LogLevel::kInfo, "an interrupted response goes on",
      {{"response", answer.id}, {"num_tokens", answer.tokens.size()}});
  const DetachedAnswer::About known = about;
  if (!detached.start(std::move(about), std::move(own)))
    detached.fail(known, {.kind = ApiErrorKind::kOverloaded,
                          .message = "The server has no room for this response until its next start."});
}

}  // namespace

void check_exposure(const ServerOptions& options) {
  if (!options.api_keys.empty() || options.allow_public_without_key || options.host == "localhost") {
    return;
  }
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(options.host, error);
  if (error || address.is_loopback()) return;  // no address: binding will say so
  throw std::runtime_error("refusing to listen on " + options.host + ":" + std::to_string(options.port) +
                           " without an API key: anyone on the network could use the server");
}

struct Server::Implementation {
  Implementation(Engine& engine, Metrics& metrics, std::vector<ServedModelInfo> models_,
                 ServerOptions options_)
      : models(std::move(models_), options_.model_aliases),
        options(std::move(options_)),
        service(engine, metrics, models, options),
        detached(engine, options.limits, metrics, answers) {}

  const ServedModels models;
  ServerOptions options;
  Service service;
  const std::shared_ptr<AnswersUnderWay> answers = std::make_shared<AnswersUnderWay>();
  DetachedAnswers detached;
  std::vector<std::unique_ptr<Shard>> shards;
  std::unique_ptr<Listener> listener, ollama_listener, metrics_listener;
};

Server::Server(Engine& engine, Metrics& metrics, std::vector<ServedModelInfo> models, ServerOptions options)
    : implementation_(
          std::make_unique<Implementation>(engine, metrics, std::move(models), std::move(options))) {}

Server::~Server() { stop(); }

void Server::start() {
  Implementation& self = *implementation_;
  check_exposure(self.options);
  for (std::uint32_t i = 0; i < std::max(1U, self.options.io_threads); ++i) {
    self.shards.push_back(std::make_unique<Shard>(
        self.service, *self.answers, self.detached,
        [&self](const boost::asio::ip::address& address, Door door) {
          (door == Door::kMetrics ? self.metrics_listener : self.listener)->release(address, door);
        }));
  }
  for (const InterruptedAnswer& answer : std::exchange(self.options.interrupted, {}))
    take_up(self.service, self.detached, answer);
  try {
    const auto listen = [&self](ListeningSocket socket, Door door, const Listener* beside = nullptr) {
      return std::make_unique<Listener>(std::move(socket), door, self.options.limits, self.shards, beside);
    };
    self.listener = listen(socket_of(self.options, self.options.socket, self.options.port), Door::kApi);
    if (self.options.ollama_port)
      self.ollama_listener =
          listen(socket_of(self.options, self.options.ollama_socket, *self.options.ollama_port),
                 Door::kOllama, self.listener.get());
    if (self.options.metrics_port)
      self.metrics_listener = listen(
          socket_of(self.options, self.options.metrics_socket, *self.options.metrics_port), Door::kMetrics);
  } catch (...) {
    self.listener.reset();
    self.ollama_listener.reset();
    self.shards.clear();
    throw;
  }
  for (const auto& shard : self.shards) shard->start();
  self.listener->start();
  if (self.ollama_listener) self.ollama_listener->start();
  if (self.metrics_listener) self.metrics_listener->start();
}

std::uint16_t Server::port() const {
  return implementation_->listener ? implementation_->listener->port() : 0;
}

std::uint16_t Server::metrics_port() const {
  return implementation_->metrics_listener ? implementation_->metrics_listener->port() : 0;
}

std::uint16_t Server::ollama_port() const {
  return implementation_->ollama_listener ? implementation_->ollama_listener->port() : 0;
}

void Server::replace_access(const ServerOptions& options) {
  implementation_->service.replace_access(options);
}

void Server::drain(std::chrono::milliseconds deadline) {
  Implementation& self = *implementation_;
  self.service.start_draining();
  for (const auto& shard : self.shards) shard->drain();
  if (self.answers->wait_for_none(deadline)) return;
  for (const auto& shard : self.shards) shard->abort_answers();
  self.detached.cancel_streams();
  self.answers->wait_for_none(kTimeToSayGoodbye);
}

void Server::stop() {
  Implementation& self = *implementation_;
  // The first shard serves the listener, which the others still report to.
  for (auto shard = self.shards.rbegin(); shard != self.shards.rend(); ++shard) {
    if (*shard == self.shards.front()) {
      boost::asio::post((*shard)->io(), [&self] {
        self.listener->close();
        if (self.ollama_listener) self.ollama_listener->close();
        if (self.metrics_listener) self.metrics_listener->close();
      });
    }
    (*shard)->stop();
  }
  self.listener.reset();
  self.ollama_listener.reset();
  self.metrics_listener.reset();
  self.shards.clear();
}

}  // namespace troupe
