// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/null_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>

#include "loadgen/client/realtime_thread.hpp"

namespace troupe::loadgen {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kRound{1};
constexpr std::size_t kReadBytes = 16 * 1024;

std::string http_chunk(std::string_view bytes) {
  std::array<char, 16> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16).ptr;
  return std::string(size.data(), end) + "\r\n" + std::string(bytes) + "\r\n";
}

// As long as a chunk of a real server.
const std::string& text_chunk() {
  static const std::string chunk = http_chunk(
      "data: "
      "{\"id\":\"chatcmpl-0123456789abcdef01234567\",\"object\":\"chat.completion.chunk\",\"created\":"
      "1700000000,"
      "\"model\":\"null\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,"
      "\"finish_reason\":null}],\"usage\":null}\n\n");
  return chunk;
}

const std::string& head() {
  static const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  return head;
}

const std::string& finish() {
  static const std::string finish =
      http_chunk(
          "data: "
          "{\"id\":\"chatcmpl-0\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
          "data: [DONE]\n\n") +
      "0\r\n\r\n";
  return finish;
}

// The number behind the key; 0 if it is not there.
std::size_t number_after(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  std::size_t number = 0;
  if (at != std::string_view::npos)
    std::from_chars(text.data() + at + key.size(), text.data() + text.size(), number);
  return number;
}

std::string field_of(std::string_view head, std::string_view name) {
  const auto at = head.find(name);
  if (at == std::string_view::npos) return {};
  const auto value = head.substr(at + name.size());
  return std::string(value.substr(0, value.find('\r')));
}

}  // namespace

class NullServer::Implementation {
 public:
  explicit Implementation(milliseconds gap)
      : rounds_(static_cast<std::size_t>(gap / kRound)),
        io_(std::make_unique<asio::io_context>(1)),
        acceptor_(std::make_unique<tcp::acceptor>(*io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0))),
        timer_(std::make_unique<asio::steady_timer>(*io_)),
        port_(acceptor_->local_endpoint().port()) {
    accept();
    next_round_ = steady_clock::now();
    if (!rounds_.empty()) await_round();
    thread_ = std::thread([this] {
      const RealtimeThread realtime;  // what delays it would look like the client's limit
      io_->run();
    });
  }

  ~Implementation() { stop(); }

  std::uint16_t port() const { return port_; }

  SendTimes stop() {
    if (!thread_.joinable()) return {};
    io_->stop();
    thread_.join();
    rounds_.clear();
    timer_.reset();
    acceptor_.reset();
    io_.reset();  // and with it the handlers that own the connections
    return std::move(send_times_);
  }

 private:
  struct Peer {
    explicit Peer(tcp::socket connected) : socket(std::move(connected)) {}
    tcp::socket socket;
    std::string input;
    std::string output;
    std::size_t chunks_left = 0;
    std::vector<Time>* times = nullptr;
  };
  using PeerPointer = std::shared_ptr<Peer>;

  void accept() {
    acceptor_->async_accept([this](error_code error, tcp::socket socket) {
      if (error) return;
      error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      socket.non_blocking(true, ignored);
      read(std::make_shared<Peer>(std::move(socket)));
      accept();
    });
  }

  void read(const PeerPointer& peer) {
    const auto size = peer->input.size();
    peer->input.resize(size + kReadBytes);
    peer->socket.async_read_some(asio::buffer(peer->input.data() + size, kReadBytes),
                                 [this, peer, size](error_code error, std::size_t num_bytes) {
                                   if (error) return;
                                   peer->input.resize(size + num_bytes);
                                   if (!take_request(peer)) read(peer);
                                 });
  }

  // False if it has not come as a whole.
  bool take_request(const PeerPointer& peer) {
    const auto end = peer->input.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const auto head_text = std::string_view(peer->input).substr(0, end + 2);
    const auto size = number_after(head_text, "Content-Length: ");
    if (peer->input.size() < end + 4 + size) return false;
    peer->times = &send_times_[field_of(head_text, "X-Request-Id: ")];
    peer->chunks_left = number_after(std::string_view(peer->input).substr(end + 4, size), "\"max_tokens\":");
    peer->input.clear();
    begin_answer(peer);
    return true;
  }

  void begin_answer(const PeerPointer& peer) {
    peer->output = head();
    if (rounds_.empty()) {
      const auto now = steady_clock::now();
      for (; peer->chunks_left > 0; --peer->chunks_left) {
        peer->output += text_chunk();
        peer->times->push_back(now);
      }
      return end_answer(peer);
    }
    rounds_[next_slot_++ % rounds_.size()].push_back(peer);  // spread evenly
  }

  // Writes what can be written now; a client that does not keep up is dropped.
  bool write(Peer& peer) {
    error_code error;
    const auto written = asio::write(peer.socket, asio::buffer(peer.output), error);
    peer.output.erase(0, written);
    return !error;
  }

  void end_answer(const PeerPointer& peer) {
    peer->output += finish();
    if (write(*peer)) read(peer);
  }

  void await_round() {
    next_round_ += kRound;
    timer_->expires_at(next_round_);
    timer_->async_wait([this](error_code error) {
      if (error) return;
      send_round(rounds_[round_++ % rounds_.size()]);
      await_round();
    });
  }

  void send_round(std::vector<PeerPointer>& peers) {
    for (auto& peer : peers) {
      peer->output += text_chunk();
      peer->times->push_back(steady_clock::now());
      if (--peer->chunks_left == 0) {
        end_answer(std::exchange(peer, nullptr));
      } else if (!write(*peer)) {
        peer.reset();
      }
    }
    std::erase(peers, nullptr);
  }

  std::vector<std::vector<PeerPointer>> rounds_;  // whose turn it is in each of a gap's rounds
  std::size_t round_ = 0;
  std::size_t next_slot_ = 0;
  SendTimes send_times_;
  std::unique_ptr<asio::io_context> io_;
  std::unique_ptr<tcp::acceptor> acceptor_;
  std::unique_ptr<asio::steady_timer> timer_;
  std::uint16_t port_;
  Time next_round_;
  std::thread thread_;
};

NullServer::NullServer(milliseconds gap) : implementation_(std::make_unique<Implementation>(gap)) {}
NullServer::~NullServer() = default;
std::uint16_t NullServer::port() const { return implementation_->port(); }
NullServer::SendTimes NullServer::stop() { return implementation_->stop(); }

}  // namespace troupe::loadgen
