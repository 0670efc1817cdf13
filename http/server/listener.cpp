// SPDX-License-Identifier: Apache-2.0
#include "http/server/listener.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "http/server/client_socket.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kRetryAfter{100};

ConnectionRoom room_for(const Limits& limits, Door door) {
  if (door == Door::kMetrics) return {.max_connections = limits.metrics_connections, .num_reserved = 0};
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
    return {.max_connections = limits.max_connections, .num_reserved = limits.reserved_connections};
  std::error_code error;
  std::uint64_t num_open = limits.metrics_connections;  // which may come at any time
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++num_open;
  }
  return connection_room(limits, files.rlim_cur, num_open);
}

}  // namespace

Listener::Listener(ListeningSocket socket, Door door, const Limits& limits,
                   const std::vector<std::unique_ptr<Shard>>& shards, const Listener* beside)
    : door_(door),
      limits_(limits),
      shards_(shards),
      acceptor_(shards.front()->io(), socket.protocol(), socket.release()),
      retry_timer_(shards.front()->io()),
      port_(socket.port()),
      counter_(beside != nullptr ? beside->counter_
                                 : std::make_shared<ConnectionCounter>(room_for(limits, door),
                                                                       limits.max_connections_per_address)) {}

void Listener::start() {
  asio::post(shards_.front()->io(), [this] { accept(); });
}

void Listener::release(const asio::ip::address& address, Door door) {
  asio::dispatch(shards_.front()->io(), [this, address, door] {
    counter_->release(address, door == Door::kReserve ? ConnectionCounter::Place::kReserve
                                                      : ConnectionCounter::Place::kNormal);
  });
}

void Listener::close() {
  error_code ignored;  // it is being given up
  acceptor_.close(ignored);
  retry_timer_.cancel();
}

void Listener::accept() {
  if (is_accepting_ || !acceptor_.is_open()) return;
  is_accepting_ = true;
  auto& io = shards_[next_shard_]->io();
  acceptor_.async_accept(io, [this](const error_code& error, tcp::socket socket) {
    is_accepting_ = false;
    if (error == asio::error::operation_aborted) return;
    // Out of descriptors or memory: both pass. A client that left early does, too.
    if (error && error != asio::error::connection_aborted) return retry_later();
    if (!error) on_accepted(std::move(socket));
    accept();
  });
}

void Listener::on_accepted(tcp::socket socket) {
  error_code error;
  const auto address = socket.remote_endpoint(error).address();
  if (error) return;  // closed with the socket
  const Place place = admit(address);
  if (place != Place::kNormal && place != Place::kReserve) return;
  try {
    apply_socket_options(socket.native_handle(), limits_);
  } catch (const std::system_error&) {
    return counter_->release(address, place);  // the peer is gone already
  }
  if (place == Place::kReserve) return adopt_for_probe(std::move(socket), address);
  shards_[next_shard_]->adopt(std::move(socket), address, door_, door_);
  if (!is_small(door_)) next_shard_ = (next_shard_ + 1) % shards_.size();
}

// The quietest connection of a full reserve or of the full port for metrics makes
// room for what may be a probe or a scraper.
Listener::Place Listener::admit(const asio::ip::address& address) {
  const Place place = counter_->admit(address);
  if (place != Place::kCrowded) return place;
  shards_.front()->close_quietest(door_ == Door::kMetrics ? Door::kMetrics : Door::kReserve);
  return counter_->admit(address);
}

// The reserve lives on this thread, where one of it can be closed at once.
void Listener::adopt_for_probe(tcp::socket socket, const asio::ip::address& address) {
  auto& front = *shards_.front();
  error_code error;
  const auto protocol = socket.local_endpoint(error).protocol();
  tcp::socket moved(front.io());
  if (!error) moved.assign(protocol, socket.release(error), error);
  if (error) return counter_->release(address, Place::kReserve);
  front.adopt(std::move(moved), address, Door::kReserve, door_);
}

void Listener::retry_later() {
  retry_timer_.expires_after(kRetryAfter);
  retry_timer_.async_wait([this](const error_code& error) {
    if (!error) accept();
  });
}

}  // namespace troupe
