// SPDX-License-Identifier: Apache-2.0
// Reading, writing, time and leaving; what is answered is in
// connection_answers.cpp.
#include "http/server/connection.hpp"

#include <utility>

#include <boost/asio/error.hpp>

#include "http/server/shard.hpp"
#include "telemetry/log.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kMaxReadsPerTurn = 4;            // then others have theirs
constexpr int kMaxWritesPerTurn = 8;           // of a long answer to a quick reader
constexpr unsigned kClientGoneStatus = 499;    // in logs only
constexpr std::chrono::seconds kRateGrace{5};  // before the body's rate is judged

bool has_passed(Connection::Clock::time_point now, Connection::Clock::time_point since,
                std::uint64_t limit_ms) {
  return now - since >= std::chrono::milliseconds(limit_ms);
}

}  // namespace

Connection::Connection(Shard& shard, asio::ip::tcp::socket socket, Door door, Door entrance)
    : shard_(shard),
      service_(shard.service()),
      limits_(shard.service().options().limits),
      door_(door),
      entrance_(entrance),
      socket_(std::move(socket), shard.service().options().tls.get()),
      parser_(limits_),
      idle_since_(Clock::now()) {}

Connection::~Connection() = default;

void Connection::start() {
  error_code error;
  socket_.start(error);
  if (error) return close();
  wait_readable();
}

// ---- reading

// A read is armed at all times, above all while an answer is generated: that is
// how a client that hangs up is noticed at once. Waiting costs no buffer.
void Connection::wait_readable() {
  if (is_waiting_readable_ || input_ended_ || phase_ == Phase::kClosed) return;
  is_waiting_readable_ = true;
  socket_.wait_to_read([self = shared_from_this()](const error_code& error) {
    self->is_waiting_readable_ = false;
    if (!error) self->read_available();
  });
}

void Connection::read_available() {
  auto& scratch = shard_.scratch();
  for (int i = 0; i < kMaxReadsPerTurn && phase_ != Phase::kClosed; ++i) {
    error_code error;
    const std::size_t size = socket_.read_some(scratch, error);
    if (is_would_block(error)) {
      note_part_of_record();
      break;
    }
    if (error == asio::error::eof) return on_end_of_input();
    if (error) return socket_.is_in_handshake() ? on_failed_handshake(error) : on_client_gone();
    on_bytes({scratch.data(), size});
    record_since_.reset();
    if (size < scratch.size()) break;  // waiting tells whether there is more
  }
  wait_readable();
}

void Connection::on_bytes(std::string_view bytes) {
  if (phase_ == Phase::kLingering || phase_ == Phase::kClosed) return;
  if (exchange_) {
    num_read_ahead_ += bytes.size();
    if (num_read_ahead_ > limits_.max_read_ahead_bytes) return on_client_gone();
  }
  parser_.feed(bytes);
  serve();
}

void Connection::on_end_of_input() {
  input_ended_ = true;
  if (generation_ || !exchange_) return on_client_gone();
  exchange_->context.keep_alive = false;  // the rest of the answer may still be wanted
}

// What came is no TLS, or none that both know. A client that speaks HTTP is told so in
// its own words, others had an alert.
void Connection::on_failed_handshake(const error_code& error) {
  service_.metrics().failed_handshakes.add();
  log(LogLevel::kDebug, "TLS handshake failed", {{"reason", error.message()}});
  socket_.give_up_tls();
  if (TlsSession::is_plain_http(error)) {
    request_since_ = Clock::now();
    answer_error(needs_tls_error());
    settle();
  } else {
    linger();
  }
  wait_readable();
}

// A request begins with the first byte of its first record, not when that can be deciphered.
void Connection::note_part_of_record() {
  if (!socket_.has_part_of_record()) {
    record_since_.reset();
  } else if (!record_since_) {
    record_since_ = Clock::now();
  }
}

void Connection::note_begin_of_request() {
  if (!has_request_begun_ && parser_.has_started()) {
    has_request_begun_ = true;
    request_since_ = record_since_.value_or(Clock::now());
  }
  if (!has_body_begun_ && parser_.state() == RequestParser::State::kBody) {
    has_body_begun_ = true;
    body_since_ = Clock::now();
  }
}

// Answers what has been read, one request after the other: the next is not
// looked at before the answer to the last has been written.
void Connection::serve() {
  while (phase_ == Phase::kReading && !exchange_) {
    note_begin_of_request();
    switch (parser_.state()) {
      case RequestParser::State::kHeader: return;
      case RequestParser::State::kBody:
        if (door_ == Door::kReserve) {  // no probe has a body
          answer_error(no_room_error());
          break;
        }
        if (!parser_.take_expectation()) return;
        out_.tail() += "HTTP/1.1 100 Continue\r\n\r\n";
        write_out();
        return;
      case RequestParser::State::kRefused: answer_error(parser_.error()); break;
      case RequestParser::State::kComplete: begin_exchange(parser_.take()); break;
    }
    settle();
  }
}

// ---- writing

void Connection::flush() {
  is_dirty_ = false;
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kLingering) return end_output();
  write_out();
  settle();
  serve();
}

// Writes what the socket takes now; the rest waits, and what comes meanwhile
// is written together with it. Never more than one write is outstanding.
void Connection::write_out() {
  if (is_waiting_writable_ || phase_ == Phase::kClosed) return;
  write_progress_ = Clock::now();
  for (int i = 0; !out_.is_empty(); ++i) {
    if (i == kMaxWritesPerTurn) return wait_writable();
    const std::string_view bytes = out_.next();
    error_code error;
    const std::size_t size = socket_.write_some(bytes, error);
    if (is_would_block(error)) return wait_writable();
    if (error) return on_client_gone();
    out_.sent(size);
  }
}

void Connection::wait_writable() {
  is_waiting_writable_ = true;
  socket_.wait_to_write([self = shared_from_this()](const error_code& error) {
    self->is_waiting_writable_ = false;
    if (!error) self->flush();
  });
}

// Once everything is written: the engine may go on, and an answer that was
// complete is over.
void Connection::settle() {
  if (phase_ == Phase::kClosed || !out_.is_empty()) return;
  if (generation_) generation_->choices.take_all();
  if (!exchange_ || !exchange_->is_answered) return;
  out_.shrink();
  end_exchange();
}

// The last answer is written. Reading goes on for a moment: closing with unread
// bytes would reset the connection and may destroy the answer on its way.
void Connection::linger() {
  phase_ = Phase::kLingering;
  linger_since_ = Clock::now();
  end_output();
}

void Connection::end_output() {
  if (!socket_.end_output()) return wait_writable();
  if (input_ended_) close();
}

// ---- time

Connection::Clock::time_point Connection::quiet_since() const {
  if (phase_ == Phase::kLingering) return linger_since_;
  return exchange_ ? write_progress_ : idle_since_;
}

void Connection::check_deadlines(Clock::time_point now) {
  if (!out_.is_empty() && has_passed(now, write_progress_, limits_.stall_timeout_ms)) {
    return on_client_gone();
  }
  switch (phase_) {
    case Phase::kReading:
      if (!exchange_) check_request_deadlines(now);
      return;
    case Phase::kStreaming:
      if (!out_.is_empty() || !has_passed(now, write_progress_, limits_.heartbeat_ms)) return;
      generation_->writer->heartbeat(out_.tail());
      return flush();
    case Phase::kLingering:
      if (has_passed(now, linger_since_, limits_.linger_timeout_ms)) close();
      return;
    case Phase::kGenerating:
    case Phase::kClosed: return;
  }
}

void Connection::check_request_deadlines(Clock::time_point now) {
  if (door_ == Door::kReserve && has_passed(now, idle_since_, limits_.reserve_timeout_ms)) return close();
  if (!has_request_begun_) {
    const auto limit = socket_.is_in_handshake() ? limits_.header_timeout_ms : limits_.idle_timeout_ms;
    const bool is_late = record_since_ && has_passed(now, *record_since_, limits_.header_timeout_ms);
    if (is_late || has_passed(now, idle_since_, limit)) close();
    return;
  }
  std::string_view late;
  if (!has_body_begun_) {
    if (has_passed(now, request_since_, limits_.header_timeout_ms)) late = "the header";
  } else {
    const auto elapsed = now - body_since_;
    const auto expected =
        limits_.min_body_bytes_per_second *
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(elapsed).count());
    const bool is_trickle = elapsed >= kRateGrace && parser_.num_body_bytes() < expected;
    if (is_trickle || has_passed(now, body_since_, limits_.body_timeout_ms)) late = "the body";
  }
  if (late.empty()) return;
  HttpError error = http_error(408, std::string(late) + " took too long to arrive");
  error.close = true;
  answer_error(std::move(error));
  settle();
}

// ---- leaving

void Connection::start_draining() {
  if (phase_ == Phase::kReading && !exchange_ && !parser_.has_started()) return close();
  if (exchange_) exchange_->context.keep_alive = false;
}

void Connection::abort_answer() {
  if (!generation_) return;
  // It is no end: the client takes the answer up where it was.
  if (const auto* followed = generation_->choices.followed(); followed && followed->about().is_background)
    return close();
  generation_->choices.cancel();
  answer_error(http_error(503, "the server is shutting down"));
  flush();
}

void Connection::on_client_gone() {
  if (generation_) service_.metrics().client_disconnects.add();
  if (exchange_) exchange_->status = kClientGoneStatus;
  close();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  if (generation_) end_generation();
  phase_ = Phase::kClosed;
  if (exchange_) {
    end_exchange();
    socket_.abort();
  } else {
    socket_.close();
  }
  shard_.forget(this);
}

}  // namespace troupe
