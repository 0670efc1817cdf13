// SPDX-License-Identifier: Apache-2.0
#include "http/server/client_socket.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

namespace troupe {

namespace asio = boost::asio;

std::size_t ClientSocket::read_some(std::span<char> bytes, ErrorCode& error) {
  return socket_.read_some(asio::buffer(bytes.data(), bytes.size()), error);
}

std::size_t ClientSocket::write_some(std::string_view bytes, ErrorCode& error) {
  return socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
}

void ClientSocket::end_output() {
  ErrorCode ignored;  // it may be gone already
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
}

void ClientSocket::close() {
  ErrorCode ignored;  // nothing is left to be done about it
  socket_.close(ignored);
}

bool is_would_block(const boost::system::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace troupe
