// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/http_poster.hpp"

#include <charconv>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace troupe {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint64_t kMaxAnswerBytes = 64 * 1024;
constexpr std::uint32_t kMaxHeaderBytes = 8 * 1024;
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

std::uint32_t parse_seconds(boost::beast::string_view text) {
  std::uint32_t seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return seconds;
}

}  // namespace

struct HttpPoster::Implementation {
  using Parser = beast_http::response_parser<beast_http::string_body>;
  using TimeLimit = std::function<TimePoint()>;

  std::string host;
  std::uint16_t port;
  std::string path;
  asio::io_context io{1};
  std::optional<boost::beast::tcp_stream> stream;  // connected

  PostedAnswer post(const std::string& json, const TimeLimit& limit) {
    const bool was_connected = stream.has_value();
    PostedAnswer answer = post_once(json, limit);
    // The other side may close an idle connection at any time.
    if (answer.status == 0 && was_connected && Clock::now() < limit()) answer = post_once(json, limit);
    return answer;
  }

  PostedAnswer post_once(const std::string& json, const TimeLimit& limit) {
    error_code error;
    if (!stream) {
      const std::string problem = connect(limit);
      if (!problem.empty()) return failure("can't connect: " + problem);
    }
    beast_http::request<beast_http::string_body> request(beast_http::verb::post, path, 11);
    request.set(beast_http::field::host, host + ":" + std::to_string(port));
    request.set(beast_http::field::user_agent, "troupe");
    request.set(beast_http::field::content_type, "application/json");
    request.body() = json;
    request.prepare_payload();
    error = wait(limit, [&](auto done) { beast_http::async_write(*stream, request, done); });
    if (error) return failure("sending failed: " + error.message());

    Parser parser;
    parser.body_limit(kMaxAnswerBytes);
    parser.header_limit(kMaxHeaderBytes);
    boost::beast::flat_buffer buffer(kMaxAnswerBytes);
    error = wait(limit, [&](auto done) { beast_http::async_read(*stream, buffer, parser, done); });
    if (error) return failure("no answer: " + error.message());
    auto response = parser.release();
    if (!response.keep_alive()) stream.reset();
    return {.status = response.result_int(),
            .error = {},
            .retry_after_s = parse_seconds(response[beast_http::field::retry_after]),
            .body = std::move(response.body())};
  }

  PostedAnswer failure(std::string why) {
    stream.reset();
    return {.status = 0, .error = std::move(why), .retry_after_s = 0, .body = {}};
  }

  // Empty if it worked.
  std::string connect(const TimeLimit& limit) {
    auto resolving = resolve(host, port);
    while (resolving.wait_for(kSlice) != std::future_status::ready)
      if (Clock::now() >= limit()) return "the name " + host + " takes too long to resolve";
    const Addresses addresses = resolving.get();
    if (!addresses.error.empty()) return host + ": " + addresses.error;
    stream.emplace(io);
    const error_code error = wait(limit, [&](auto done) {
      stream->async_connect(addresses.endpoints,
                            [done](error_code result, const tcp::endpoint&) mutable { done(result, 0); });
    });
    if (error) stream.reset();
    return error ? error.message() : "";
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
      stream->close();  // ends the operation
    }
    return is_late ? make_error_code(boost::system::errc::timed_out) : *result;
  }

  using Clock = std::chrono::steady_clock;
};

HttpPoster::HttpPoster(std::string host, std::uint16_t port, std::string path)
    : implementation_(std::make_unique<Implementation>()) {
  implementation_->host = std::move(host);
  implementation_->port = port;
  implementation_->path = std::move(path);
}
HttpPoster::~HttpPoster() = default;

PostedAnswer HttpPoster::post(const std::string& json, const std::function<TimePoint()>& time_limit) {
  return implementation_->post(json, time_limit);
}

}  // namespace troupe
