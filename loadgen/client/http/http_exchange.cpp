// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/http_exchange.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <optional>

#include "loadgen/client/http/tls_client.hpp"

namespace troupe::loadgen {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;

constexpr std::uint64_t kMaxBodyBytes = 16 << 20;

http::request<http::string_body> request_of(const ServerAddress& server, const HttpQuestion& question) {
  const auto verb = question.json.empty() ? http::verb::get : http::verb::post;
  http::request<http::string_body> request(verb, server.prefix + std::string(question.path), 11);
  request.set(http::field::host, server.host_field());
  request.set(http::field::user_agent, "troupe-loadgen");
  request.set(http::field::connection, "close");
  if (!question.api_key.empty())
    request.set(http::field::authorization, "Bearer " + std::string(question.api_key));
  if (!question.json.empty()) {
    request.set(http::field::content_type, "application/json");
    request.body() = question.json;
    request.prepare_payload();
  }
  return request;
}

// Connect, shake hands, write, read, one after the other. A timer closes the socket, which ends
// whichever is under way: Beast's own sees nothing of what an encrypted stream does to its socket.
class Exchange {
 public:
  Exchange(asio::io_context& io, const ServerAddress& server, const HttpQuestion& question)
      : io_(io), socket_(io), deadline_(io, question.timeout), request_(request_of(server, question)) {
    if (server.is_https) tls_.emplace(server);
    parser_.body_limit(kMaxBodyBytes);
  }

  error_code run(const asio::ip::tcp::resolver::results_type& endpoints) {
    deadline_.async_wait([this](error_code cancelled) {
      if (cancelled) return;
      has_timed_out_ = true;
      error_code ignored;
      socket_.close(ignored);
    });
    asio::async_connect(socket_, endpoints, [this](error_code connected, const auto&) {
      if (has_failed(connected)) return;
      if (!tls_) return ask(socket_);
      encrypted_.emplace(tls_->stream_over(socket_));
      encrypted_->async_handshake(asio::ssl::stream_base::client, [this](error_code shaken) {
        if (!has_failed(shaken)) return ask(*encrypted_);
        if (!has_timed_out_) problem_ = "no TLS session: " + TlsClient::problem_of(*encrypted_, shaken);
      });
    });
    io_.run();
    return error_;
  }

  // What failed, in more words than the error has; empty: it has them all.
  const std::string& problem() const { return problem_; }

  HttpReply reply() {
    return {.status = parser_.get().result_int(), .body = std::move(parser_.get().body())};
  }

 private:
  template <typename Stream>
  void ask(Stream& stream) {
    http::async_write(stream, request_, [this, &stream](error_code written, std::size_t) {
      if (has_failed(written)) return;
      http::async_read(stream, buffer_, parser_, [this](error_code read, std::size_t) {
        if (!has_failed(read)) deadline_.cancel();
      });
    });
  }

  bool has_failed(error_code error) {
    error_ = has_timed_out_ ? error_code(beast::error::timeout) : error;
    if (error_) deadline_.cancel();
    return bool(error_);
  }

  asio::io_context& io_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  bool has_timed_out_ = false;
  std::optional<TlsClient> tls_;  // none: http
  std::optional<TlsClient::Stream> encrypted_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  beast::flat_buffer buffer_;
  error_code error_;
  std::string problem_;
};

std::string cause(const error_code& error) {
  if (error == asio::error::connection_refused) return "nothing listens there (connection refused)";
  if (error == beast::error::timeout) return "no answer in time";
  if (error == http::error::end_of_stream) return "the connection was closed without an answer";
  return error.message();
}

}  // namespace

HttpReply http_exchange(const ServerAddress& server, const HttpQuestion& question) {
  asio::io_context io(1);
  error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto endpoints = resolver.resolve(server.host, std::to_string(server.port), error);
  const auto url = server.url() + std::string(question.path);
  if (error) throw ServerUnreachable(url + ": host '" + server.host + "' has no address: " + error.message());
  Exchange exchange(io, server, question);
  error = exchange.run(endpoints);
  if (error)
    throw ServerUnreachable(url + ": " + (exchange.problem().empty() ? cause(error) : exchange.problem()));
  return exchange.reply();
}

}  // namespace troupe::loadgen
