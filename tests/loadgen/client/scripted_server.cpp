// SPDX-License-Identifier: Apache-2.0
#include "tests/loadgen/client/scripted_server.hpp"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio.hpp>
#include <cstdio>
#include <thread>

namespace troupe::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

std::size_t content_length(std::string_view head) {
  constexpr std::string_view kName = "Content-Length: ";
  const auto at = head.find(kName);
  return at == std::string_view::npos ? 0 : std::stoul(std::string(head.substr(at + kName.size(), 12)));
}

using Exchanges = std::vector<std::unique_ptr<ScriptedExchange>>;

class Peer : public std::enable_shared_from_this<Peer> {
 public:
  Peer(tcp::socket socket, const ScriptedServer::Script& script, Exchanges& exchanges)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), script_(script), exchanges_(exchanges) {}

  void read_request() {
    asio::async_read_until(socket_, asio::dynamic_buffer(input_), "\r\n\r\n",
                           [self = shared_from_this()](error_code error, std::size_t size) {
                             if (!error) self->read_body(size);
                           });
  }

 private:
  void read_body(std::size_t head_size) {
    number_ = exchanges_.size();
    exchange_ = exchanges_.emplace_back(std::make_unique<ScriptedExchange>()).get();
    exchange_->head = input_.substr(0, head_size);
    input_.erase(0, head_size);
    const auto size = content_length(exchange_->head);
    const auto missing = size - std::min(size, input_.size());
    asio::async_read(socket_, asio::dynamic_buffer(input_), asio::transfer_exactly(missing),
                     [self = shared_from_this(), size](error_code error, std::size_t) {
                       if (!error) self->begin_answer(size);
                     });
  }

  void begin_answer(std::size_t size) {
    exchange_->body = input_.substr(0, size);
    input_.erase(0, size);
    exchange_->received = steady_clock::now();
    answer_ = script_(*exchange_, number_);
    due_ = exchange_->received;
    step(0);
  }

  void step(std::size_t number) {
    if (number == answer_.steps.size()) return end();
    due_ += answer_.steps[number].delay;
    timer_.expires_at(due_);
    timer_.async_wait([self = shared_from_this(), number](error_code stopped) {
      if (stopped) return;
      self->exchange_->sent.push_back(steady_clock::now());
      asio::async_write(self->socket_, asio::buffer(self->answer_.steps[number].bytes),
                        [self, number](error_code error, std::size_t) {
                          if (!error) self->step(number + 1);
                        });
    });
  }

  void end() {
    using End = ScriptedAnswer::End;
    error_code ignored;
    if (answer_.end == End::kKeep) return read_request();
    if (answer_.end == End::kHang) return wait_for_client();
    if (answer_.end == End::kReset) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
  }

  void wait_for_client() {
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code) {});
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  const ScriptedServer::Script& script_;
  Exchanges& exchanges_;
  std::string input_;
  ScriptedExchange* exchange_ = nullptr;
  std::size_t number_ = 0;  // of the exchange
  ScriptedAnswer answer_;
  steady_clock::time_point due_;
};

}  // namespace

class ScriptedServer::Implementation {
 public:
  explicit Implementation(Script script)
      : script_(std::move(script)),
        io_(std::make_unique<asio::io_context>(1)),
        acceptor_(std::make_unique<tcp::acceptor>(*io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0))),
        port_(acceptor_->local_endpoint().port()) {
    accept();
    thread_ = std::thread([this] { io_->run(); });
  }
  ~Implementation() { stop(); }

  std::uint16_t port() const { return port_; }
  std::size_t num_connections() const { return num_connections_; }
  const Exchanges& exchanges() const { return exchanges_; }

  void stop() {
    if (!thread_.joinable()) return;
    io_->stop();
    thread_.join();
    acceptor_.reset();
    io_.reset();  // and with it the handlers that own the connections
  }

 private:
  void accept() {
    acceptor_->async_accept([this](error_code error, tcp::socket socket) {
      if (error) return;
      ++num_connections_;
      socket.set_option(tcp::no_delay(true));
      std::make_shared<Peer>(std::move(socket), script_, exchanges_)->read_request();
      accept();
    });
  }

  Script script_;
  Exchanges exchanges_;
  std::unique_ptr<asio::io_context> io_;
  std::unique_ptr<tcp::acceptor> acceptor_;
  std::uint16_t port_;
  std::atomic<std::size_t> num_connections_ = 0;
  std::thread thread_;
};

ScriptedServer::ScriptedServer(Script script)
    : implementation_(std::make_unique<Implementation>(std::move(script))) {}
ScriptedServer::~ScriptedServer() = default;
std::uint16_t ScriptedServer::port() const { return implementation_->port(); }
std::size_t ScriptedServer::num_connections() const { return implementation_->num_connections(); }
void ScriptedServer::stop() { implementation_->stop(); }
const Exchanges& ScriptedServer::exchanges() const { return implementation_->exchanges(); }

std::string event_stream_head() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
         "Transfer-Encoding: chunked\r\n\r\n";
}

std::string chunk_of(std::string_view bytes) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + std::string(bytes) + "\r\n";
}

std::string text_event(std::string_view text) {
  return chunk_of(
      "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
      "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" +
      std::string(text) + "\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n");
}

std::string finish_events(std::size_t num_tokens, std::string_view reason) {
  return chunk_of("data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" +
                  std::string(reason) + "\"}],\"usage\":null}\n\n") +
         chunk_of(
             "data: "
             "{\"id\":\"chatcmpl-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":" +
             std::to_string(num_tokens) +
             ",\"total_tokens\":0,\"prompt_tokens_details\":{\"cached_tokens\":3}},"
             "\"timings\":{\"queue_ms\":1.5}}\n\n") +
         chunk_of("data: [DONE]\n\n") + "0\r\n\r\n";
}

ScriptedAnswer whole_response(std::string_view status, std::string_view body, std::string_view fields) {
  const auto head = "HTTP/1.1 " + std::string(status) + "\r\n" + std::string(fields) +
                    "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return {.steps = {{.delay = {}, .bytes = head + std::string(body)}}};
}

ScriptedAnswer streamed_answer(const std::vector<std::chrono::microseconds>& delays) {
  ScriptedAnswer answer{.steps = {{.delay = {}, .bytes = event_stream_head()}}};
  for (const auto delay : delays) answer.steps.push_back({.delay = delay, .bytes = text_event("word ")});
  answer.steps.push_back({.delay = {}, .bytes = finish_events(delays.size())});
  return answer;
}

}  // namespace troupe::test
