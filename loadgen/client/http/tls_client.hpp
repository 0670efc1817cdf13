// SPDX-License-Identifier: Apache-2.0
// The client's side of https: the authorities it trusts, and encrypted streams over sockets.
#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "loadgen/client/server/server_address.hpp"

namespace troupe::loadgen {

class TlsClient {
 public:
  using Stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;

  // server: one of https. Throws std::runtime_error if its certificate file can't be used.
  explicit TlsClient(const ServerAddress& server);

  // Before its handshake; checks the server's name and certificate unless told not to.
  // socket: outlives it.
  Stream stream_over(boost::asio::ip::tcp::socket& socket);
  // The reason of a handshake that failed, in words.
  static std::string problem_of(Stream& stream, const boost::system::error_code& error);

 private:
  boost::asio::ssl::context context_;
  std::string host_;
};

}  // namespace troupe::loadgen
