// SPDX-License-Identifier: Apache-2.0
#include "telemetry/http/http_client.hpp"

#include <future>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "telemetry/http/retry_after.hpp"
#include "telemetry/http/tls_client.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMaxBufferBytes = 64 * 1024;
constexpr std::uint32_t kMaxHeaderBytes = 8 * 1024;
constexpr int kMaxInterimAnswers = 8;            // 100 Continue and the like, before the real one
constexpr std::chrono::milliseconds kSlice{20};  // the time limit is looked at so often

struct Addresses {
  std::vector<tcp::endpoint> endpoints;
  std::string error;
};

// A name server that does not answer blocks for many seconds and can't be
// interrupted: on a thread that nobody waits for longer than he likes.
std::future<Addresses> resolve(const std::string& host, std::uint16_t port) {
  std::promise<Addresses> promise;
  auto future = promise.get_future();
  error_code is_no_address;
  const auto address = asio::ip::make_address(host, is_no_address);
  if (!is_no_address) {
    promise.set_value({.endpoints = {tcp::endpoint(address, port)}, .error = {}});
    return future;
  }
  std::thread([host, port, promise = std::move(promise)]() mutable {
    Addresses found;
    asio::io_context io;
    error_code error;
    for (const auto& entry : tcp::resolver(io).resolve(host, std::to_string(port), error))
      found.endpoints.push_back(entry.endpoint());
    if (error) found.error = error.message();
    promise.set_value(std::move(found));
  }).detach();
  return future;
}

// A connection, under TLS where there is a context for it.
struct Connection {
  Connection(asio::io_context& io, asio::ssl::context* context) : socket(io) {
    if (context) tls.emplace(socket, *context);
  }
  // operation: takes either stream.
  template <class Operation>
  void run(Operation operation) {
    if (tls) {
      operation(*tls);
    } else {
      operation(socket);
    }
  }

  tcp::socket socket;
  std::optional<asio::ssl::stream<tcp::socket&>> tls;
};

HttpFailure::Cause cause_of(const error_code& error) {
  if (error == asio::error::connection_refused) return HttpFailure::Cause::kRefused;
  if (error == boost::system::errc::timed_out) return HttpFailure::Cause::kTimedOut;
  if (error == beast_http::error::end_of_stream) return HttpFailure::Cause::kClosed;
  return HttpFailure::Cause::kOther;
}

}  // namespace

struct HttpClient::Implementation {
  using Clock = std::chrono::steady_clock;
  using Step = HttpFailure::Step;
  using Request = beast_http::request<beast_http::string_body>;
  using Response = beast_http::response<beast_http::string_body>;
  using Parser = beast_http::response_parser<beast_http::string_body>;
  using TimeLimit = std::function<TimePoint()>;

  Implementation(HttpServerAddress server_, std::uint64_t max_body_bytes_)
      : server(std::move(server_)), max_body_bytes(max_body_bytes_) {
    if (!server.is_https) return;
    tls.emplace(make_tls_client(server.trusted_certificates).release());  // it owns that now
    if (server.is_insecure) tls->set_verify_mode(asio::ssl::verify_none);
  }

  const HttpServerAddress server;
  const std::uint64_t max_body_bytes;
  std::optional<asio::ssl::context> tls;
  asio::io_context io{1};
  std::optional<Connection> connection;  // connected

  HttpReply ask(const HttpCall& call, const TimeLimit& limit) {
    const bool was_connected = connection.has_value();
    HttpReply reply = ask_once(call, limit);
    // The other side may close an idle connection at any time.
    if (reply.status == 0 && was_connected && Clock::now() < limit()) reply = ask_once(call, limit);
    return reply;
  }

  HttpReply ask_once(const HttpCall& call, const TimeLimit& limit) {
    if (!connection)
      if (auto problem = connect(limit)) return failed(std::move(*problem));
    const Request request = request_of(call);
    error_code error = wait(limit, [&](auto done) {
      connection->run([&](auto& stream) { beast_http::async_write(stream, request, done); });
    });
    if (error) return failed(failure_of(Step::kSend, error));

    Response response;
    error = read_answer(response, limit);
    if (error) return failed(failure_of(Step::kReceive, error));
    const auto retry_after = response[beast_http::field::retry_after];
    return {.status = response.result_int(),
            .body = std::move(response.body()),
            .retry_after = parse_retry_after({retry_after.data(), retry_after.size()},
                                             std::chrono::system_clock::now())};
  }

  static Request request_of(const HttpCall& call) {
    Request request;
    request.version(11);
    request.method_string(call.method);
    request.target(call.path);
    for (const auto& header : call.headers) request.set(header.name, header.value);
    request.body() = call.body;
    request.prepare_payload();
    return request;
  }

  // Passes over interim answers. The connection is left only where it is of use again.
  error_code read_answer(Response& response, const TimeLimit& limit) {
    boost::beast::flat_buffer buffer(kMaxBufferBytes);
    for (int num_interim = 0; num_interim <= kMaxInterimAnswers; ++num_interim) {
      Parser parser;
      parser.body_limit(max_body_bytes);
      parser.header_limit(kMaxHeaderBytes);
      const error_code error = wait(limit, [&](auto done) {
        connection->run([&](auto& stream) { beast_http::async_read(stream, buffer, parser, done); });
      });
      if (error) return error;
      response = parser.release();
      if (response.result_int() < 200) continue;
      // Bytes left would be taken for the next request's answer.
      if (!response.keep_alive() || buffer.size() > 0) connection.reset();
      return {};
    }
    return make_error_code(boost::system::errc::bad_message);
  }

  static HttpFailure failure_of(Step step, const error_code& error) {
    return {.step = step, .cause = cause_of(error), .reason = error.message()};
  }

  HttpReply failed(HttpFailure failure) {
    connection.reset();
    return {.failure = std::move(failure)};
  }

  std::optional<HttpFailure> connect(const TimeLimit& limit) {
    const std::string& host = server.host;
    auto resolving = resolve(host, server.port);
    while (resolving.wait_for(kSlice) != std::future_status::ready)
      if (Clock::now() >= limit())
        return HttpFailure{.step = Step::kResolve,
                           .cause = HttpFailure::Cause::kTimedOut,
                           .reason = "the name takes too long to resolve"};
    const Addresses addresses = resolving.get();
    if (!addresses.error.empty()) return HttpFailure{.step = Step::kResolve, .reason = addresses.error};
    connection.emplace(io, tls ? &*tls : nullptr);
    const error_code error = wait(limit, [&](auto done) {
      asio::async_connect(connection->socket, addresses.endpoints,
                          [done](error_code result, const tcp::endpoint&) mutable { done(result, 0); });
    });
    return error ? failure_of(Step::kConnect, error) : shake_hands(limit);
  }

  // Nothing, if there is no TLS.
  std::optional<HttpFailure> shake_hands(const TimeLimit& limit) {
    if (!connection->tls) return std::nullopt;
    auto& stream = *connection->tls;
    expect_host(stream.native_handle(), server.host);
    const error_code error = wait(limit, [&](auto done) {
      stream.async_handshake(asio::ssl::stream_base::client,
                             [done](error_code result) mutable { done(result, 0); });
    });
    if (!error) return std::nullopt;
    HttpFailure failure = failure_of(Step::kHandshake, error);
    const std::string problem = certificate_problem(stream.native_handle());
    if (!problem.empty()) failure.reason = problem;
    return failure;
  }

  // Runs one operation to its end, which the time limit brings about if nothing else does.
  template <class Start>
  error_code wait(const TimeLimit& limit, Start start) {
    std::optional<error_code> result;
    start([&result](error_code error, std::size_t) { result = error; });
    bool is_late = false;
    io.restart();
    while (!result) {
      io.run_one_for(kSlice);
      if (result || is_late || Clock::now() < limit()) continue;
      is_late = true;
      error_code ignored;
      connection->socket.close(ignored);  // ends the operation
    }
    return is_late ? make_error_code(boost::system::errc::timed_out) : *result;
  }
};

HttpClient::HttpClient(HttpServerAddress server, std::uint64_t max_body_bytes)
    : implementation_(std::make_unique<Implementation>(std::move(server), max_body_bytes)) {}
HttpClient::~HttpClient() = default;

HttpReply HttpClient::ask(const HttpCall& call, const std::function<TimePoint()>& time_limit) {
  return implementation_->ask(call, time_limit);
}

}  // namespace troupe
