// SPDX-License-Identifier: Apache-2.0
// One connection to a server: a request at a time, kept open in between.
//
//   connecting ──► busy ──► draining ──► idle ──► busy …
//        └───────────┴─────────┴──────────┴─────► closed
//   draining: the answer is delivered, the end of its body has not come yet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "loadgen/client/http/answer_reader.hpp"
#include "loadgen/client/http/tls_client.hpp"

namespace troupe::loadgen {

// A client that does not wait for its answer; none of both: it does.
struct Impatience {
  std::optional<SteadyTime> hangs_up_at;
  // It reads no more and keeps the connection, until the deadline or the end of the run; no
  // other request gets it. Kernels on the way still take as much as they have room for.
  std::optional<SteadyTime> stops_reading_at;
};

struct Completion {
  Answer answer;
  SteadyTime started{};  // a connection was free, or began to be made; its epoch: never
  SteadyTime sent{};     // the first byte was handed to the kernel; its epoch: never
};

class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  using OnDone = std::function<void(Completion)>;
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  // Told when the connection is idle or closed, once a change.
  using OnFree = std::function<void(const std::shared_ptr<ClientConnection>&)>;

  // All outlive the connection. tls: how it speaks https; null: it speaks http.
  ClientConnection(boost::asio::io_context& io, const Endpoints& endpoints, TlsClient* tls, OnFree on_free);

  // Connects first if need be. Calls back exactly once, later. Only if idle or new.
  void send(std::string bytes, bool is_streamed, SteadyTime deadline, const Impatience& impatience,
            OnDone on_done);
  // Ends an answer under way as timed out, or stops draining, if it is time.
  void check_deadline(SteadyTime now);
  // Ends an answer under way as unfinished, and closes.
  void abandon();

  bool is_idle() const { return state_ == State::kIdle; }
  // Idle, not for too long, and the server has not closed it meanwhile.
  bool is_reusable(SteadyTime now);
  void close();

 private:
  enum class State : std::uint8_t { kNew, kConnecting, kBusy, kDraining, kIdle, kClosed };

  void connect();
  void shake_hands();
  void plan_impatience(const Impatience& impatience);
  // The request of this number, and its answer has not been delivered.
  bool is_awaited(std::uint64_t number) const { return number == num_requests_ && on_done_; }
  void stop_reading();
  void write();
  void read();
  void on_read(const boost::system::error_code& error, std::size_t num_bytes);
  void fail(Outcome outcome, const std::string& error);
  void settle(State state);
  void change(State state);

  boost::asio::ip::tcp::socket socket_;
  const Endpoints& endpoints_;
  TlsClient* tls_;
  std::optional<TlsClient::Stream> encrypted_;  // over socket_, from the handshake on
  OnFree on_free_;
  boost::asio::steady_timer hang_up_, stall_;
  std::uint64_t num_requests_ = 0;
  bool has_stopped_reading_ = false;  // once true: no further request is sent
  State state_ = State::kNew;
  boost::beast::flat_buffer buffer_;
  std::string request_;  // stays until it is written
  bool is_written_ = false;
  std::unique_ptr<AnswerReader> reader_;
  OnDone on_done_;
  Completion completion_;
  SteadyTime deadline_{};
  SteadyTime idle_since_{};
};

}  // namespace troupe::loadgen
