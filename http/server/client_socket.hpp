// SPDX-License-Identifier: Apache-2.0
// A client's bytes, in and out, without ever blocking, as they are or through TLS.
// Its owner reads or writes until would_block, then waits and tries again. Belongs
// to one io thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

#include "http/limits.hpp"
#include "http/tls/tls_session.hpp"

namespace troupe {

class TlsIdentity;

class ClientSocket {
 public:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;

  // The room that a read has, at least (TlsSession::read_some).
  static constexpr std::size_t kMinReadBytes = TlsSession::kMaxRecordBytes;

  // identity: null without TLS; else not needed any longer than this call takes. Throws
  // std::runtime_error if memory is short.
  ClientSocket(Tcp::socket socket, const TlsIdentity* identity);

  // Once, before anything else.
  void start(ErrorCode& error) { socket_.non_blocking(true, error); }

  // Takes what has come; eof: the client sends no more. The first reads make the handshake.
  std::size_t read_some(std::span<char> bytes, ErrorCode& error);
  // How many of the bytes were taken; the rest is to be given again, in front of others.
  std::size_t write_some(std::string_view bytes, ErrorCode& error);

  // Calls handler(error_code) when there is more to be had from reading, or writing.
  template <typename Handler>
  void wait_to_read(Handler handler) {
    const bool is_to_write = tls_ && tls_->reads_wait_to_write();
    socket_.async_wait(is_to_write ? Tcp::socket::wait_write : Tcp::socket::wait_read, std::move(handler));
  }
  template <typename Handler>
  void wait_to_write(Handler handler) {
    const bool is_to_read = tls_ && tls_->writes_wait_to_read();
    socket_.async_wait(is_to_read ? Tcp::socket::wait_read : Tcp::socket::wait_write, std::move(handler));
  }

  // Tells the client that nothing follows; reading goes on. False: the socket is full,
  // again after waiting to write.
  bool end_output();
  // The same as far as the socket takes it at once, and no more reading.
  void close();
  // Without telling: what was sent is not all.
  void abort();

  // Keys are being agreed on: nothing was read or can be written yet.
  bool is_in_handshake() const { return tls_ && tls_->is_in_handshake(); }
  // More than what was read has come, but can't be told yet.
  bool has_part_of_record() const { return tls_ && tls_->has_part_of_record(); }
  // The handshake has failed: bytes go as they are from now on.
  void give_up_tls() { tls_.reset(); }

  Tcp::endpoint remote_endpoint(ErrorCode& error) const { return socket_.remote_endpoint(error); }

 private:
  Tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;  // null: bytes go as they are
};

// Nothing is wrong: wait and try again.
bool is_would_block(const boost::system::error_code& error);

// The kernel's options of a client's socket, so that slow readers are felt and vanished ones are noticed.
// Throws std::system_error if the kernel refuses one.
void apply_socket_options(int socket, const Limits& limits);

}  // namespace troupe
