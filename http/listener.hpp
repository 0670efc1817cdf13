// SPDX-License-Identifier: Apache-2.0
// Accepts connections on the first shard's thread and deals them out to all
// shards in turn. When there are as many as there may be, or the process runs
// out of file descriptors, it stops accepting and lets the backlog wait.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/connection_counter.hpp"
#include "http/limits.hpp"
#include "http/shard.hpp"

namespace troupe {

class Listener {
 public:
  // Throws std::runtime_error that names host and port.
  Listener(const std::string& host, std::uint16_t port, const Limits& limits,
           const std::vector<std::unique_ptr<Shard>>& shards);

  std::uint16_t port() const { return port_; }
  void start();
  // A connection that had been dealt out is closed. Any io thread.
  void release(const boost::asio::ip::address& address);
  // The first shard's thread, or when no thread runs.
  void close();

 private:
  void accept();
  void on_accepted(boost::asio::ip::tcp::socket socket);
  void retry_later();

  const Limits& limits_;
  const std::vector<std::unique_ptr<Shard>>& shards_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_timer_;
  std::uint16_t port_ = 0;
  ConnectionCounter counter_;  // the first shard's thread
  std::size_t next_shard_ = 0;
  bool is_accepting_ = false;
};

}  // namespace troupe
