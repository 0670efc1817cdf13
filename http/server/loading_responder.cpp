// SPDX-License-Identifier: Apache-2.0
#include "http/server/loading_responder.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <future>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/api/answers/error_response.hpp"
#include "http/api/answers/ollama/ollama_json.hpp"
#include "http/routing/router.hpp"
#include "http/server/client_socket.hpp"
#include "http/wire/response_writer.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMaxHeaderBytes = 8192;
constexpr std::size_t kMaxSessions = 256;
constexpr std::chrono::seconds kSessionTime{5};

std::string bytes_of(const Reply& reply, bool is_head) {
  ResponseContext context;
  context.request_id = "loading";
  context.keep_alive = false;
  context.is_head = is_head;
  std::string bytes;
  append_reply(bytes, context, reply);
  return bytes;
}

// The answer to a request of which at least the first line is there.
std::string answer_to(std::string_view header, Door door) {
  const std::string_view line = header.substr(0, header.find("\r\n"));
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string_view method = line.substr(0, blank);
  const std::string_view rest = line.substr(std::min(blank + 1, line.size()));
  const RouteMatch match = match_route(rest.substr(0, rest.find(' ')), door);
  const Route route = match.route;
  const HttpError loading = http_error(503, "the server is loading its model");
  const bool is_ollama = style_of(match, door) == ApiStyle::kOllama;
  Reply reply{.status = 503,
              .body = is_ollama ? ollama_error_json(loading) : error_json(loading),
              .retry_after_s = loading.retry_after_s};
  if (route == Route::kHealth || route == Route::kReady) reply.body = "{\"status\":\"loading\"}";
  if (route == Route::kLive || route == Route::kPing) reply = {.body = "{\"status\":\"ok\"}"};
  return bytes_of(reply, method == "HEAD");
}

// The answer to plain HTTP where TLS is spoken; nothing of the request was read.
std::string refusal_of_plain_http(Door door) {
  const HttpError error = needs_tls_error();
  const bool is_ollama = style_of({}, door) == ApiStyle::kOllama;
  return bytes_of({.status = error.status, .body = is_ollama ? ollama_error_json(error) : error_json(error)},
                  false);
}

// Of the responder's thread, for whatever it reads.
using Scratch = std::array<char, ClientSocket::kMinReadBytes>;

// One connection: reads a header, answers, and reads on until the client has
// gone, since a reset might destroy the answer on its way.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Door door, const TlsIdentity* tls, Scratch& scratch)
      : door_(door), timer_(socket.get_executor()), socket_(std::move(socket), tls), scratch_(scratch) {}

  void start() {
    timer_.expires_after(kSessionTime);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->close();
    });
    error_code error;
    socket_.start(error);
    error ? close() : wait_to_read();
  }

  // Without waiting for more.
  void hurry() { is_answered_ ? close() : answer(); }

 private:
  void wait_to_read() {
    socket_.wait_to_read([self = shared_from_this()](const error_code& error) {
      if (!error) self->read();
    });
  }

  void read() {
    error_code error;
    const std::size_t size = socket_.read_some(scratch_, error);
    if (error && !is_would_block(error)) {
      socket_.is_in_handshake() ? give_up(error) : hurry();
    } else if (!is_answered_) {
      header_.append(scratch_.data(), size);
      if (header_.size() >= kMaxHeaderBytes || header_.find("\r\n\r\n") != std::string::npos) answer();
    }
    wait_to_read();
  }

  // The handshake failed: plain HTTP is told so in its own words, others had an alert.
  void give_up(const error_code& error) {
    is_answered_ = true;
    socket_.give_up_tls();
    if (TlsSession::is_plain_http(error)) bytes_ = refusal_of_plain_http(door_);
    write();
  }

  void answer() {
    is_answered_ = true;
    if (header_.find("\r\n") == std::string::npos) return close();
    bytes_ = answer_to(header_, door_);
    write();
  }

  void write() {
    error_code error;
    while (!bytes_.empty() && !error) bytes_.erase(0, socket_.write_some(bytes_, error));
    if (!error && socket_.end_output()) return;
    if (error && !is_would_block(error)) return close();
    socket_.wait_to_write([self = shared_from_this()](const error_code& failure) {
      if (!failure) self->write();
    });
  }

  void close() {
    timer_.cancel();
    bytes_.empty() ? socket_.close() : socket_.abort();  // half an answer is not told to be whole
  }

  const Door door_;
  asio::steady_timer timer_;
  ClientSocket socket_;
  Scratch& scratch_;
  std::string header_, bytes_;
  bool is_answered_ = false;
};

// One listening socket and the connections it gave: those of one port leave the
// other's alone.
class Entrance {
 public:
  Entrance(asio::io_context& io, const ListeningSocket& socket, Door door, const TlsIdentity* tls,
           Scratch& scratch)
      : tls_(tls), scratch_(scratch), acceptor_(io, socket.protocol(), socket.duplicate()), door_(door) {}

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      // Out of descriptors: the backlog waits for the server.
      if (error && error != asio::error::connection_aborted) return;
      std::erase_if(sessions_, [](const auto& session) { return session.expired(); });
      if (!error && sessions_.size() < kMaxSessions) begin(std::move(socket));
      accept();
    });
  }

  void stop_accepting() {
    error_code ignored;  // it is being given up
    acceptor_.close(ignored);
  }

  void finish() {
    stop_accepting();
    for (const auto& weak : sessions_)
      if (const auto session = weak.lock()) session->hurry();
  }

 private:
  void begin(tcp::socket socket) {
    try {
      const auto session = std::make_shared<Session>(std::move(socket), door_, tls_, scratch_);
      sessions_.push_back(session);
      session->start();
    } catch (const std::exception& error) {  // memory for its TLS is short
      log(LogLevel::kWarning, "a connection is given up", {{"reason", error.what()}});
    }
  }

  const TlsIdentity* tls_;
  Scratch& scratch_;
  tcp::acceptor acceptor_;
  const Door door_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace

struct LoadingResponder::Implementation {
  Implementation(const ListeningSocket& api, const ListeningSocket* metrics, const ListeningSocket* ollama,
                 const TlsIdentity* tls) {
    entrances.emplace_back(io, api, Door::kApi, tls, scratch);
    if (metrics != nullptr) entrances.emplace_back(io, *metrics, Door::kMetrics, tls, scratch);
    if (ollama != nullptr) entrances.emplace_back(io, *ollama, Door::kOllama, tls, scratch);
  }

  void finish() {
    for (auto& entrance : entrances) entrance.finish();
    // All that can be done at once is done; clients that do not read are left.
    asio::post(io, [this] { asio::post(io, [this] { io.stop(); }); });
  }

  asio::io_context io{1};
  Scratch scratch{};
  std::list<Entrance> entrances;  // which stay where they are
  std::thread thread;
};

LoadingResponder::LoadingResponder(const ListeningSocket& api, const ListeningSocket* metrics,
                                   const ListeningSocket* ollama, const TlsIdentity* tls)
    : implementation_(std::make_unique<Implementation>(api, metrics, ollama, tls)) {
  Implementation& self = *implementation_;
  for (auto& entrance : self.entrances) entrance.accept();
  self.thread = std::thread([&self] { self.io.run(); });
}

void LoadingResponder::stop_accepting() {
  Implementation& self = *implementation_;
  std::promise<void> is_closed;
  asio::post(self.io, [&] {
    for (auto& entrance : self.entrances) entrance.stop_accepting();
    is_closed.set_value();
  });
  is_closed.get_future().wait();
}

LoadingResponder::~LoadingResponder() {
  Implementation& self = *implementation_;
  asio::post(self.io, [&self] { self.finish(); });
  self.thread.join();
}

}  // namespace troupe
