// SPDX-License-Identifier: Apache-2.0
#include "http/server.hpp"

#include <algorithm>
#include <stdexcept>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>

#include "http/answers_under_way.hpp"
#include "http/listener.hpp"
#include "http/service.hpp"
#include "http/shard.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kTimeToSayGoodbye{1000};

// A server that anyone on the network may use has to be asked for.
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

}  // namespace

struct Server::Implementation {
  Implementation(Engine& engine, Metrics& metrics, ServedModelInfo model_, ServerOptions options_)
      : model(std::move(model_)), options(std::move(options_)), service(engine, metrics, model, options) {}

  const ServedModelInfo model;
  const ServerOptions options;
  Service service;
  AnswersUnderWay answers;
  std::vector<std::unique_ptr<Shard>> shards;
  std::unique_ptr<Listener> listener;
};

Server::Server(Engine& engine, Metrics& metrics, ServedModelInfo model, ServerOptions options)
    : implementation_(
          std::make_unique<Implementation>(engine, metrics, std::move(model), std::move(options))) {}

Server::~Server() { stop(); }

void Server::start() {
  Implementation& self = *implementation_;
  check_exposure(self.options);
  for (std::uint32_t i = 0; i < std::max(1U, self.options.io_threads); ++i) {
    self.shards.push_back(std::make_unique<Shard>(
        self.service, self.answers,
        [&self](const boost::asio::ip::address& address) { self.listener->release(address); }));
  }
  try {
    self.listener =
        std::make_unique<Listener>(self.options.host, self.options.port, self.options.limits, self.shards);
  } catch (...) {
    self.shards.clear();
    throw;
  }
  for (const auto& shard : self.shards) shard->start();
  self.listener->start();
}

std::uint16_t Server::port() const {
  return implementation_->listener ? implementation_->listener->port() : 0;
}

void Server::drain(std::chrono::milliseconds deadline) {
  Implementation& self = *implementation_;
  self.service.start_draining();
  for (const auto& shard : self.shards) shard->drain();
  if (self.answers.wait_for_none(deadline)) return;
  for (const auto& shard : self.shards) shard->abort_answers();
  self.answers.wait_for_none(kTimeToSayGoodbye);
}

void Server::stop() {
  Implementation& self = *implementation_;
  // The first shard serves the listener, which the others still report to.
  for (auto shard = self.shards.rbegin(); shard != self.shards.rend(); ++shard) {
    if (*shard == self.shards.front()) {
      boost::asio::post((*shard)->io(), [&self] { self.listener->close(); });
    }
    (*shard)->stop();
  }
  self.listener.reset();
  self.shards.clear();
}

}  // namespace troupe
