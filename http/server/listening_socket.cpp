// SPDX-License-Identifier: Apache-2.0
#include "http/server/listening_socket.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <boost/asio/io_context.hpp>

namespace troupe {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string complaint(const std::string& host, std::uint16_t port, const std::string& why) {
  return "cannot listen on " + host + ":" + std::to_string(port) + ": " + why;
}

[[noreturn]] void fail(const std::string& host, std::uint16_t port, const error_code& error) {
  if (error == asio::error::address_in_use)
    throw AddressNotFree(complaint(host, port, "the port is in use by another process"));
  if (error.value() == EADDRNOTAVAIL) throw AddressNotFree(complaint(host, port, error.message()));
  throw std::runtime_error(complaint(host, port, error.message()));
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& host, std::uint16_t port, std::uint64_t backlog) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    throw std::runtime_error(complaint(host, port, "expected an IP address or localhost, no other name"));
  const tcp::endpoint endpoint(address, port);
  protocol_ = endpoint.protocol();
  asio::io_context io;
  tcp::acceptor acceptor(io);
  acceptor.open(protocol_, error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(static_cast<int>(backlog), error);
  if (!error) port_ = acceptor.local_endpoint(error).port();
  if (!error) descriptor_ = acceptor.release(error);
  if (error) fail(host, port, error);
}

ListeningSocket::~ListeningSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : protocol_(other.protocol_), port_(other.port_), descriptor_(other.release()) {}

int ListeningSocket::release() { return std::exchange(descriptor_, -1); }

int ListeningSocket::duplicate() const {
  const int copy = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw std::system_error(errno, std::generic_category(), "a listening socket");
  return copy;
}

}  // namespace troupe
