// SPDX-License-Identifier: Apache-2.0
#include "http/server/client_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include "http/tls/tls_identity.hpp"

namespace troupe {
namespace {

void set(int socket, int level, int option, std::uint64_t value) {
  const int number = static_cast<int>(value);
  if (::setsockopt(socket, level, option, &number, sizeof number) != 0) {
    throw std::system_error(errno, std::generic_category(), "setsockopt");
  }
}

}  // namespace

namespace asio = boost::asio;

ClientSocket::ClientSocket(Tcp::socket socket, const TlsIdentity* identity)
    : socket_(std::move(socket)),
      tls_(identity != nullptr ? identity->begin_session(socket_.native_handle()) : nullptr) {}

std::size_t ClientSocket::read_some(std::span<char> bytes, ErrorCode& error) {
  if (tls_) return tls_->read_some(bytes, error);
  return socket_.read_some(asio::buffer(bytes.data(), bytes.size()), error);
}

std::size_t ClientSocket::write_some(std::string_view bytes, ErrorCode& error) {
  if (tls_) return tls_->write_some(bytes, error);
  return socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
}

bool ClientSocket::end_output() {
  if (tls_ && !tls_->say_goodbye()) return false;
  ErrorCode ignored;  // it may be gone already
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  return true;
}

void ClientSocket::close() {
  if (tls_) tls_->say_goodbye();
  abort();
}

void ClientSocket::abort() {
  tls_.reset();       // first: the descriptor may be another's soon
  ErrorCode ignored;  // nothing is left to be done about it
  socket_.close(ignored);
}

bool is_would_block(const boost::system::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

void apply_socket_options(int socket, const Limits& limits) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_SNDBUF, limits.send_buffer_bytes / 2);  // the kernel doubles it
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, limits.tcp_user_timeout_ms);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, limits.keepalive_idle_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, limits.keepalive_interval_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, limits.keepalive_probes);
}

}  // namespace troupe
