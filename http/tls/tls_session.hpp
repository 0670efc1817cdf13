// SPDX-License-Identifier: Apache-2.0
// TLS of one connection, over a socket that does not block: what the client sends
// is deciphered as it is read, what it gets ciphered as it is written, and the
// handshake is made on the way by the first reads. Asio's own TLS stream would keep
// 34 KB of buffers for each connection and can't take half of a write; here an idle
// connection has none. Belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include <boost/system/error_code.hpp>

#include "http/tls/hello_guard.hpp"

struct bio_method_st;
struct bio_st;
struct ssl_ctx_st;
struct ssl_st;

namespace troupe {

class TlsSession {
 public:
  using ErrorCode = boost::system::error_code;

  // A read with as much room as this gives the data of one record at most, and leaves none
  // behind in memory that no socket would tell of.
  static constexpr std::size_t kMaxRecordBytes = 16 * 1024;

  // context: how TLS is spoken; kept as long as it is needed. socket: stays the caller's,
  // and open for as long as this lives. Throws std::runtime_error if memory is short.
  TlsSession(ssl_ctx_st* context, int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // would_block: again when the socket is as the wait for this says; more may have come
  // already, as a record without data (new keys) is a read of its own. eof: the client sends
  // no more, be it that it said so or that it left. Any other error is final; an alert for it,
  // if one is due, has been sent. message_size, without one: what it claims is too long (HelloGuard).
  std::size_t read_some(std::span<char> bytes, ErrorCode& error);
  // The same; how many bytes were taken. After would_block the same bytes have to come
  // again in front, at another address if need be and with more behind them.
  std::size_t write_some(std::string_view bytes, ErrorCode& error);
  // Says that nothing follows (close_notify), if the session got so far and is sound.
  // False: the socket is full; again when it can be written to.
  bool say_goodbye();

  // Nothing has been read yet: keys are still being agreed on.
  bool is_in_handshake() const { return !is_established_; }
  // The last read ended within a record, of which nothing can be told before its end.
  bool has_part_of_record() const;
  // Reading waits until the socket can be written to, or the reverse.
  bool reads_wait_to_write() const { return reads_wait_to_write_; }
  bool writes_wait_to_read() const { return writes_wait_to_read_; }

  // The error of a handshake with a client that speaks HTTP and no TLS.
  static bool is_plain_http(const ErrorCode& error);

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  ErrorCode error_of(int result);
  static const bio_method_st* socket_method();
  static int receive(bio_st* bio, char* bytes, int size);

  std::size_t num_left_to_take_ = 0;  // bytes of the socket, in the call under way
  HelloGuard guard_;
  std::unique_ptr<ssl_st, Free> ssl_;
  bool is_established_ = false;
  bool is_broken_ = false;
  bool has_said_goodbye_ = false;
  bool reads_wait_to_write_ = false, writes_wait_to_read_ = false;
};

}  // namespace troupe
