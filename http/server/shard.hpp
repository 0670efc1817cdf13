// SPDX-License-Identifier: Apache-2.0
// One io thread and the connections that live on it. Events of all of them
// come through one outbox; one coarse tick serves all their deadlines, so no
// token and no request costs a timer.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/server/answers_under_way.hpp"
#include "http/server/connection.hpp"
#include "http/server/detached_answers.hpp"
#include "http/server/outbox.hpp"

namespace troupe {

class Shard {
 public:
  // on_closed: told, on the io thread, of each connection closed.
  using OnClosed = std::function<void(const boost::asio::ip::address&, Door)>;

  Shard(Service& service, AnswersUnderWay& answers, DetachedAnswers& detached, OnClosed on_closed);
  ~Shard();

  boost::asio::io_context& io() { return io_; }
  void start();

  // Any thread.
  void adopt(boost::asio::ip::tcp::socket socket, boost::asio::ip::address address, Door door, Door entrance);
  void drain();
  void abort_answers();
  void stop();  // closes everything, joins; not from the io thread

  // The io thread, for the listener. door: kReserve or kMetrics.
  void close_quietest(Door door);

  // The io thread, for connections.
  Service& service() { return service_; }
  AnswersUnderWay& answers() { return answers_; }
  DetachedAnswers& detached() { return detached_; }
  const std::shared_ptr<Outbox>& outbox() { return outbox_; }
  std::array<char, 64 * 1024>& scratch() { return scratch_; }
  void flush_later(std::shared_ptr<Connection> connection);
  void forget(Connection* connection);

 private:
  struct Member {
    std::shared_ptr<Connection> connection;
    boost::asio::ip::address address;
  };

  void on_bell();
  void tick();
  void for_each(const std::function<void(Connection&)>& visit);

  Service& service_;
  AnswersUnderWay& answers_;
  DetachedAnswers& detached_;
  OnClosed on_closed_;
  boost::asio::io_context io_;
  // Shared with streams that the engine may keep longer than the server lives.
  std::shared_ptr<Outbox> outbox_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds tick_period_;
  std::unordered_map<Connection*, Member> connections_;
  std::vector<Connection*> of_small_doors_;  // connections with kReserve or kMetrics: a few
  std::vector<Outbox::Entry> entries_;
  std::vector<std::shared_ptr<Connection>> dirty_;
  Connection::Clock::time_point last_events_{};
  std::array<char, 64 * 1024> scratch_;
  std::thread thread_;
};

}  // namespace troupe
