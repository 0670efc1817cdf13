// SPDX-License-Identifier: Apache-2.0
// A client's bytes, in and out, without ever blocking: the connection does not
// know what carries them. Its owner reads or writes until would_block, then waits
// and tries again. Belongs to one io thread.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

namespace troupe {

class ClientSocket {
 public:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;

  explicit ClientSocket(Tcp::socket socket) : socket_(std::move(socket)) {}

  // Once, before anything else.
  void start(ErrorCode& error) { socket_.non_blocking(true, error); }

  // What has come; eof: the client sends no more.
  std::size_t read_some(std::span<char> bytes, ErrorCode& error);
  // How many of the bytes were taken; the rest is to be given again.
  std::size_t write_some(std::string_view bytes, ErrorCode& error);

  // Calls handler(error_code) when there is more to be had from reading, or writing.
  template <typename Handler>
  void wait_to_read(Handler handler) {
    socket_.async_wait(Tcp::socket::wait_read, std::move(handler));
  }
  template <typename Handler>
  void wait_to_write(Handler handler) {
    socket_.async_wait(Tcp::socket::wait_write, std::move(handler));
  }

  // Tells the client that nothing follows; reading goes on.
  void end_output();
  void close();

  Tcp::endpoint remote_endpoint(ErrorCode& error) const { return socket_.remote_endpoint(error); }

 private:
  Tcp::socket socket_;
};

// Nothing is wrong: wait and try again.
bool is_would_block(const boost::system::error_code& error);

}  // namespace troupe
