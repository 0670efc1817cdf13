// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/completion_client.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::loadgen {
namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;

// How late a timeout may be noticed. One timer serves all requests.
constexpr std::chrono::milliseconds kWatchPeriod{50};

ClientConnection::Endpoints resolve(asio::io_context& io, const ServerAddress& server) {
  asio::ip::tcp::resolver resolver(io);
  boost::system::error_code error;
  const auto found = resolver.resolve(server.host, std::to_string(server.port), error);
  if (error) throw std::runtime_error("host '" + server.host + "' has no address: " + error.message());
  ClientConnection::Endpoints endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  return endpoints;
}

}  // namespace

CompletionClient::CompletionClient(asio::io_context& io, const ClientSettings& settings)
    : io_(io), settings_(settings), endpoints_(resolve(io, settings.server)), watch_(io) {
  if (settings_.server.is_https) tls_ = std::make_unique<TlsClient>(settings_.server);
  fixed_fields_ = " HTTP/1.1\r\nHost: " + settings_.server.host_field() +
                  "\r\nUser-Agent: troupe-loadgen\r\nContent-Type: application/json\r\n";
  if (!settings_.api_key.empty()) fixed_fields_ += "Authorization: Bearer " + settings_.api_key + "\r\n";
}

CompletionClient::~CompletionClient() = default;

void CompletionClient::send(CompletionRequest request, OnDone on_done) {
  const auto deadline = steady_clock::now() + settings_.timeout;
  auto bytes = bytes_of(request);
  watch_deadlines();
  if (const auto connection = free_connection())
    return connection->send(std::move(bytes), request.is_streamed, deadline, request.impatience,
                            std::move(on_done));
  waiting_.push_back(
      {std::move(bytes), request.is_streamed, deadline, request.impatience, std::move(on_done)});
  max_waiting_ = std::max(max_waiting_, waiting_.size());
}

std::string CompletionClient::bytes_of(const CompletionRequest& request) const {
  std::string bytes = "POST " + settings_.server.prefix + request.path + fixed_fields_;
  bytes += request.is_streamed ? "Accept: text/event-stream\r\n" : "Accept: application/json\r\n";
  if (!request.id.empty()) bytes += "X-Request-Id: " + request.id + "\r\n";
  bytes += "Content-Length: " + std::to_string(request.body.size()) + "\r\n\r\n" + request.body;
  return bytes;
}

CompletionClient::Connection CompletionClient::free_connection() {
  const auto now = steady_clock::now();
  while (!idle_.empty()) {
    const auto connection = std::move(idle_.back());
    idle_.pop_back();
    if (connection->is_reusable(now)) return connection;
    connection->close();
  }
  if (connections_.size() >= settings_.max_connections) return nullptr;
  const auto connection = std::make_shared<ClientConnection>(
      io_, endpoints_, tls_.get(), [this](const Connection& free) { on_free(free); });
  connections_.insert(connection);
  return connection;
}

void CompletionClient::on_free(const Connection& connection) {
  if (connection->is_idle()) {
    idle_.push_back(connection);
  } else {
    connections_.erase(connection);
    std::erase(idle_, connection);
  }
  if (!waiting_.empty()) asio::post(io_, [this] { start_waiting(); });
}

void CompletionClient::start_waiting() {
  while (!waiting_.empty()) {
    const auto connection = free_connection();
    if (!connection) return;
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    connection->send(std::move(next.bytes), next.is_streamed, next.deadline, next.impatience,
                     std::move(next.on_done));
  }
}

void CompletionClient::end_waiting(Waiting waiting, Outcome outcome, const std::string& error) {
  Completion completion;
  completion.answer.outcome = outcome;
  completion.answer.error = error;
  completion.answer.finished = steady_clock::now();
  waiting.on_done(std::move(completion));
}

void CompletionClient::abandon() {
  for (auto& waiting : std::exchange(waiting_, {}))
    end_waiting(std::move(waiting), Outcome::kUnfinished, "the run ended before there was a free connection");
  for (const auto& connection : std::exchange(connections_, {})) connection->abandon();
  idle_.clear();
  watch_.cancel();
}

void CompletionClient::watch_deadlines() {
  if (std::exchange(is_watching_, true)) return;
  watch_.expires_after(kWatchPeriod);
  watch_.async_wait([this](boost::system::error_code error) {
    is_watching_ = false;
    if (error) return;
    const auto now = steady_clock::now();
    while (!waiting_.empty() && waiting_.front().deadline <= now) {
      auto late = std::move(waiting_.front());
      waiting_.pop_front();
      end_waiting(std::move(late), Outcome::kTimedOut, "no free connection in time");
    }
    const std::vector<Connection> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->check_deadline(now);
    if (connections_.size() > idle_.size() || !waiting_.empty()) watch_deadlines();
  });
}

}  // namespace troupe::loadgen
