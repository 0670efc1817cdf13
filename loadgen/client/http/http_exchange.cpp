// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/http_exchange.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
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

// Connect, write, read, one after the other; Beast's stream watches the time,
// which it does for asynchronous operations only.
class Exchange {
 public:
  Exchange(asio::io_context& io, const ServerAddress& server, const HttpQuestion& question)
      : io_(io), stream_(io), request_(request_of(server, question)) {
    if (server.is_https) tls_.emplace(server);
    parser_.body_limit(kMaxBodyBytes);
    stream_.expires_after(question.timeout);
  }

  error_code run(const asio::ip::tcp::resolver::results_type& endpoints) {
    stream_.async_connect(endpoints, [this](error_code connected, const auto&) {
      if (is_over(connected)) return;
      if (!tls_) return ask(stream_);
      encrypted_.emplace(tls_->stream_over(stream_.socket()));
      encrypted_->async_handshake(asio::ssl::stream_base::client, [this](error_code shaken) {
        if (!is_over(shaken)) return ask(*encrypted_);
        problem_ = "no TLS session: " + TlsClient::problem_of(*encrypted_, shaken);
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
      if (is_over(written)) return;
      http::async_read(stream, buffer_, parser_, [this](error_code read, std::size_t) { is_over(read); });
    });
  }

  bool is_over(error_code error) {
    error_ = error;
    return bool(error);
  }

  asio::io_context& io_;
  beast::tcp_stream stream_;
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
