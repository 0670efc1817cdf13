// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 client for completions that keeps connections open and stamps
// what arrives with the steady clock. Everything happens on the thread that
// runs the io_context; nothing is ever sent a second time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "loadgen/client/http/client_connection.hpp"
#include "loadgen/client/server/server_address.hpp"

namespace troupe::loadgen {

struct ClientSettings {
  ServerAddress server;
  std::string api_key;  // sent as a bearer token; empty: none
  // More requests than this wait for a free connection, and the wait is theirs.
  std::size_t max_connections = 4096;
  // From being handed to the client to the end of the answer.
  std::chrono::milliseconds timeout{600'000};
};

struct CompletionRequest {
  std::string path;  // "/v1/chat/completions"
  std::string body;
  std::string id;  // X-Request-Id; empty: none
  bool is_streamed = true;
  Impatience impatience = {};
};

class CompletionClient {
 public:
  using OnDone = ClientConnection::OnDone;

  // Resolves the host's name. Throws std::runtime_error if it has no address, or for
  // https if the certificate file can't be used.
  CompletionClient(boost::asio::io_context& io, const ClientSettings& settings);
  ~CompletionClient();
  CompletionClient(const CompletionClient&) = delete;
  CompletionClient& operator=(const CompletionClient&) = delete;

  // Calls back exactly once, from the io_context and never from within this call.
  void send(CompletionRequest request, OnDone on_done);
  // Ends all requests under way as kUnfinished.
  void abandon();
  // The most requests that waited for a connection at any time.
  std::size_t max_waiting() const { return max_waiting_; }

 private:
  using Connection = std::shared_ptr<ClientConnection>;
  struct Waiting {
    std::string bytes;
    bool is_streamed;
    SteadyTime deadline;
    Impatience impatience;
    OnDone on_done;
  };

  std::string bytes_of(const CompletionRequest& request) const;
  Connection free_connection();  // null if there are as many as may be
  void on_free(const Connection& connection);
  void start_waiting();
  void end_waiting(Waiting waiting, Outcome outcome, const std::string& error);
  void watch_deadlines();

  boost::asio::io_context& io_;
  const ClientSettings settings_;
  ClientConnection::Endpoints endpoints_;
  std::unique_ptr<TlsClient> tls_;  // null: http
  std::string fixed_fields_;        // of every request's head
  std::unordered_set<Connection> connections_;
  std::vector<Connection> idle_;  // the last one used last
  std::deque<Waiting> waiting_;   // for a connection
  std::size_t max_waiting_ = 0;
  boost::asio::steady_timer watch_;
  bool is_watching_ = false;
};

}  // namespace troupe::loadgen
