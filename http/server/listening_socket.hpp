// SPDX-License-Identifier: Apache-2.0
// A TCP socket that listens: made before the model is loaded, so that a port in
// use is found out at once, and handed to the server when there is one. Until it
// is accepted from, the kernel keeps connections in the backlog.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace troupe {

// The port is in use, or this machine does not have the address (yet): what passes by itself.
class AddressNotFree : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One thread at a time.
class ListeningSocket {
 public:
  // host: an address or "localhost"; port 0: any free one. Throws AddressNotFree, or
  // std::runtime_error, that names host and port.
  ListeningSocket(const std::string& host, std::uint16_t port, std::uint64_t backlog);
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  std::uint16_t port() const { return port_; }
  boost::asio::ip::tcp protocol() const { return protocol_; }

  // The descriptor becomes the caller's.
  int release();
  // Another descriptor of the same socket, the caller's. Throws std::system_error.
  int duplicate() const;

 private:
  boost::asio::ip::tcp protocol_ = boost::asio::ip::tcp::v4();
  std::uint16_t port_ = 0;
  int descriptor_ = -1;
};

}  // namespace troupe
