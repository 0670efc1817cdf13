// SPDX-License-Identifier: Apache-2.0
// Accepts connections on the first shard's thread and deals them out to all
// shards in turn; those for metrics stay on this thread, where one can be closed
// at once. When there are as many as there may be, a few more are let in that
// only probes are served on, and on the port for metrics the quietest leaves. When the process runs out of
// file descriptors it stops accepting and lets the backlog wait.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/limits.hpp"
#include "http/server/connection_counter.hpp"
#include "http/server/listening_socket.hpp"
#include "http/server/shard.hpp"

namespace troupe {

class Listener {
 public:
  // door: kApi, kOllama or kMetrics. beside: a listener whose room this one shares, so that limits are of
  // both together; null: it has its own.
  Listener(ListeningSocket socket, Door door, const Limits& limits,
           const std::vector<std::unique_ptr<Shard>>& shards, const Listener* beside = nullptr);

  std::uint16_t port() const { return port_; }
  void start();
  // A connection that had been dealt out is closed. Any io thread.
  void release(const boost::asio::ip::address& address, Door door);
  // The first shard's thread, or when no thread runs.
  void close();

 private:
  void accept();
  using Place = ConnectionCounter::Place;

  void on_accepted(boost::asio::ip::tcp::socket socket);
  Place admit(const boost::asio::ip::address& address);
  void adopt_for_probe(boost::asio::ip::tcp::socket socket, const boost::asio::ip::address& address);
  void retry_later();

  const Door door_;
  const Limits& limits_;
  const std::vector<std::unique_ptr<Shard>>& shards_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_timer_;
  std::uint16_t port_ = 0;
  const std::shared_ptr<ConnectionCounter> counter_;  // the first shard's thread
  std::size_t next_shard_ = 0;
  bool is_accepting_ = false;
};

}  // namespace troupe
