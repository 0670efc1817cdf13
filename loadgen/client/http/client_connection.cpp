// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/client_connection.hpp"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/write.hpp>

#include <utility>

namespace troupe::loadgen {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 16 * 1024;
constexpr std::size_t kMaxBufferBytes = 128 * 1024;
constexpr int kStalledWindowBytes = 4096;
// For the end of a body after [DONE]: some servers send it apart.
constexpr std::chrono::seconds kDrainTime{1};
// Servers close idle connections after 5 s and more; a request that meets such
// a close would fail for no fault of the server's.
constexpr std::chrono::seconds kMaxIdleTime{4};

}  // namespace

ClientConnection::ClientConnection(asio::io_context& io, const Endpoints& endpoints, TlsClient* tls,
                                   OnFree on_free)
    : socket_(io),
      endpoints_(endpoints),
      tls_(tls),
      on_free_(std::move(on_free)),
      hang_up_(io),
      stall_(io),
      buffer_(kMaxBufferBytes) {}

void ClientConnection::send(std::string bytes, bool is_streamed, SteadyTime deadline,
                            const Impatience& impatience, OnDone on_done) {
  request_ = std::move(bytes);
  reader_ = std::make_unique<AnswerReader>(is_streamed);
  deadline_ = deadline;
  on_done_ = std::move(on_done);
  completion_ = {};
  completion_.started = steady_clock::now();
  num_requests_ += 1;
  plan_impatience(impatience);
  if (state_ == State::kNew)
    connect();
  else
    write();
}

// A timer that has run out can't be cancelled any more: its handler comes nevertheless, perhaps when
// the request has its answer, or the connection the next one.
void ClientConnection::plan_impatience(const Impatience& impatience) {
  const auto number = num_requests_;
  if (impatience.hangs_up_at) {
    hang_up_.expires_at(*impatience.hangs_up_at);
    hang_up_.async_wait([self = shared_from_this(), number](error_code error) {
      if (!error && self->is_awaited(number))
        self->fail(Outcome::kCancelled, "its client hung up, as planned");
    });
  }
  if (impatience.stops_reading_at) {
    stall_.expires_at(*impatience.stops_reading_at);
    stall_.async_wait([self = shared_from_this(), number](error_code error) {
      if (!error && self->is_awaited(number)) self->stop_reading();
    });
  }
}

// A small window makes the server feel it soon.
void ClientConnection::stop_reading() {
  has_stopped_reading_ = true;
  error_code ignored;
  socket_.set_option(asio::socket_base::receive_buffer_size(kStalledWindowBytes), ignored);
}

void ClientConnection::connect() {
  state_ = State::kConnecting;
  asio::async_connect(socket_, endpoints_, [self = shared_from_this()](error_code error, const auto&) {
    if (self->state_ != State::kConnecting) return;
    if (error) return self->fail(Outcome::kUnreachable, "can't connect: " + error.message());
    self->socket_.set_option(asio::ip::tcp::no_delay(true), error);
    if (self->tls_ != nullptr) return self->shake_hands();
    self->write();
  });
}

void ClientConnection::shake_hands() {
  encrypted_.emplace(tls_->stream_over(socket_));
  encrypted_->async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](error_code error) {
    if (self->state_ != State::kConnecting) return;
    if (error)
      return self->fail(Outcome::kUnreachable,
                        "no TLS session: " + TlsClient::problem_of(*self->encrypted_, error));
    self->write();
  });
}

void ClientConnection::write() {
  state_ = State::kBusy;
  is_written_ = false;
  read();  // a server may answer, or hang up, before it has read everything
  completion_.sent = steady_clock::now();
  // A failure shows when reading, where an answer that came before it shows too.
  const auto on_written = [self = shared_from_this()](error_code error, std::size_t) {
    self->is_written_ = !error;
  };
  if (encrypted_) return asio::async_write(*encrypted_, asio::buffer(request_), on_written);
  asio::async_write(socket_, asio::buffer(request_), on_written);
}

void ClientConnection::read() {
  const auto on_bytes = [self = shared_from_this()](error_code error, std::size_t num_bytes) {
    self->on_read(error, num_bytes);
  };
  if (encrypted_) return encrypted_->async_read_some(buffer_.prepare(kReadBytes), on_bytes);
  socket_.async_read_some(buffer_.prepare(kReadBytes), on_bytes);
}

void ClientConnection::on_read(const error_code& error, std::size_t num_bytes) {
  const auto now = steady_clock::now();
  if (state_ != State::kBusy && state_ != State::kDraining) return;
  if (has_stopped_reading_) {  // bytes that come to a read begun before are lost
    if (error) fail(Outcome::kCancelled, std::string(kStoppedReading));
    return;
  }
  if (error) {
    const bool is_end = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    reader_->end(is_end ? "" : error.message(), now);
    return settle(State::kClosed);
  }
  buffer_.commit(num_bytes);
  const auto bytes = buffer_.cdata();
  buffer_.consume(reader_->feed({static_cast<const char*>(bytes.data()), bytes.size()}, now));
  if (reader_->is_at_end()) {
    const bool is_kept = reader_->is_connection_kept() && is_written_ && buffer_.size() == 0;
    return settle(is_kept ? State::kIdle : State::kClosed);
  }
  if (reader_->has_verdict() && state_ == State::kBusy) {
    deadline_ = now + kDrainTime;
    settle(reader_->is_complete() ? State::kDraining : State::kClosed);
  } else if (buffer_.size() + kReadBytes > kMaxBufferBytes) {
    fail(Outcome::kBroken, "the answer is not HTTP: a line has no end");
  }
  if (state_ == State::kBusy || state_ == State::kDraining) read();
}

void ClientConnection::check_deadline(SteadyTime now) {
  if (now < deadline_) return;
  if (state_ == State::kDraining)
    settle(State::kClosed);
  else if (state_ == State::kConnecting || state_ == State::kBusy)
    fail(Outcome::kTimedOut,
         state_ == State::kConnecting ? "no connection in time" : "no end of the answer in time");
}

void ClientConnection::abandon() {
  if (state_ == State::kConnecting || state_ == State::kBusy)
    fail(Outcome::kUnfinished, "the run ended");
  else
    settle(State::kClosed);
}

void ClientConnection::fail(Outcome outcome, const std::string& error) {
  if (has_stopped_reading_)
    reader_->give_up(Outcome::kCancelled, kStoppedReading, steady_clock::now());
  else
    reader_->give_up(outcome, error, steady_clock::now());
  settle(State::kClosed);
}

// First the connection, then the answer: the callback may send the next
// request, which then finds this connection.
void ClientConnection::settle(State state) {
  hang_up_.cancel();
  stall_.cancel();
  auto completion = std::move(completion_);
  const auto on_done = std::exchange(on_done_, nullptr);
  if (on_done) completion.answer = reader_->take_answer();
  change(state);
  if (on_done) on_done(std::move(completion));
}

void ClientConnection::change(State state) {
  if (state_ == state) return;
  state_ = state;
  if (state == State::kClosed) {
    error_code ignored;
    socket_.close(ignored);
  } else if (state == State::kIdle) {
    idle_since_ = steady_clock::now();
  }
  if (state != State::kDraining) on_free_(shared_from_this());
}

bool ClientConnection::is_reusable(SteadyTime now) {
  if (state_ != State::kIdle || now - idle_since_ > kMaxIdleTime) return false;
  char byte = 0;
  const auto received = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void ClientConnection::close() { settle(State::kClosed); }

}  // namespace troupe::loadgen
