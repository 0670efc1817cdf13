// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/http_poster.hpp"

#include <future>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "telemetry/tracing/retry_after.hpp"
#include "telemetry/tracing/tls_client.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint64_t kMaxAnswerBytes = 64 * 1024;
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
  Connection(asio::io_context& io, asio::ssl::context* context) : tcp(io) {
    if (context) tls.emplace(tcp, *context);
  }
  // operation: takes either stream.
  template <class Operation>
  void run(Operation operation) {
    if (tls) {
      operation(*tls);
    } else {
      operation(tcp);
    }
  }

  boost::beast::tcp_stream tcp;
  std::optional<asio::ssl::stream<boost::beast::tcp_stream&>> tls;
};

std::string host_header(const OtlpEndpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

}  // namespace

struct HttpPoster::Implementation {
  using Clock = std::chrono::steady_clock;
  using Response = beast_http::response<beast_http::string_body>;
  using Parser = beast_http::response_parser<beast_http::string_body>;
  using TimeLimit = std::function<TimePoint()>;

  Implementation(const OtlpEndpoint& endpoint_, std::vector<PostedHeader> headers_,
                 const std::string& trusted_certificates)
      : endpoint(endpoint_), headers(std::move(headers_)) {
    if (endpoint.is_https) tls.emplace(make_tls_client(trusted_certificates).release());  // it owns that now
  }

  const OtlpEndpoint endpoint;
  const std::vector<PostedHeader> headers;
  std::optional<asio::ssl::context> tls;
  asio::io_context io{1};
  std::optional<Connection> connection;  // connected

  PostedAnswer post(const std::string& body, const TimeLimit& limit) {
    const bool was_connected = connection.has_value();
    PostedAnswer answer = post_once(body, limit);
    // The other side may close an idle connection at any time.
    if (answer.status == 0 && was_connected && Clock::now() < limit()) answer = post_once(body, limit);
    return answer;
  }

  PostedAnswer post_once(const std::string& body, const TimeLimit& limit) {
    if (!connection) {
      const std::string problem = connect(limit);
      if (!problem.empty()) return failure("can't connect: " + problem);
    }
    beast_http::request<beast_http::string_body> request(beast_http::verb::post, endpoint.path, 11);
    request.set(beast_http::field::user_agent, "troupe");
    for (const auto& header : headers) request.set(header.name, header.value);
    request.set(beast_http::field::host, host_header(endpoint));
    request.body() = body;
    request.prepare_payload();
    error_code error = wait(limit, [&](auto done) {
      connection->run([&](auto& stream) { beast_http::async_write(stream, request, done); });
    });
    if (error) return failure("sending failed: " + error.message());

    Response response;
    error = read_answer(response, limit);
    if (error) return failure("no answer: " + error.message());
    const auto retry_after = response[beast_http::field::retry_after];
    return {.status = response.result_int(),
            .error = {},
            .retry_after =
                parse_retry_after({retry_after.data(), retry_after.size()}, std::chrono::system_clock::now()),
            .body = std::move(response.body())};
  }

  // Passes over interim answers. The connection is left only where it is of use again.
  error_code read_answer(Response& response, const TimeLimit& limit) {
    boost::beast::flat_buffer buffer(kMaxAnswerBytes);
    for (int num_interim = 0; num_interim <= kMaxInterimAnswers; ++num_interim) {
      Parser parser;
      parser.body_limit(kMaxAnswerBytes);
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

  PostedAnswer failure(std::string why) {
    connection.reset();
    return {.status = 0, .error = std::move(why), .retry_after = {}, .body = {}};
  }

  // Empty if it worked.
  std::string connect(const TimeLimit& limit) {
    const std::string& host = endpoint.host;
    auto resolving = resolve(host, endpoint.port);
    while (resolving.wait_for(kSlice) != std::future_status::ready)
      if (Clock::now() >= limit()) return "the name " + host + " takes too long to resolve";
    const Addresses addresses = resolving.get();
    if (!addresses.error.empty()) return host + ": " + addresses.error;
    connection.emplace(io, tls ? &*tls : nullptr);
    const error_code error = wait(limit, [&](auto done) {
      connection->tcp.async_connect(
          addresses.endpoints, [done](error_code result, const tcp::endpoint&) mutable { done(result, 0); });
    });
    return error ? error.message() : shake_hands(limit);
  }

  // Empty if it worked, or if there is no TLS.
  std::string shake_hands(const TimeLimit& limit) {
    if (!connection->tls) return "";
    auto& stream = *connection->tls;
    expect_host(stream.native_handle(), endpoint.host);
    const error_code error = wait(limit, [&](auto done) {
      stream.async_handshake(asio::ssl::stream_base::client,
                             [done](error_code result) mutable { done(result, 0); });
    });
    if (!error) return "";
    const std::string problem = certificate_problem(stream.native_handle());
    return problem.empty() ? error.message() : problem;
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
      connection->tcp.close();  // ends the operation
    }
    return is_late ? make_error_code(boost::system::errc::timed_out) : *result;
  }
};

HttpPoster::HttpPoster(const OtlpEndpoint& endpoint, std::vector<PostedHeader> headers,
                       const std::string& trusted_certificates)
    : implementation_(std::make_unique<Implementation>(endpoint, std::move(headers), trusted_certificates)) {}
HttpPoster::~HttpPoster() = default;

PostedAnswer HttpPoster::post(const std::string& body, const std::function<TimePoint()>& time_limit) {
  return implementation_->post(body, time_limit);
}

}  // namespace troupe
