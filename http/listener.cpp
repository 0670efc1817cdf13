// SPDX-License-Identifier: Apache-2.0
#include "http/listener.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "http/socket_options.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kRetryAfter{100};

// What the table says, or less where the process may not open so many files.
std::uint64_t max_connections(const Limits& limits) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) {
    return limits.max_connections;
  }
  std::error_code error;
  std::uint64_t num_open = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++num_open;
  }
  const std::uint64_t usable = files.rlim_cur * limits.max_descriptor_percent / 100;
  const std::uint64_t left = usable > num_open ? usable - num_open : 0;
  return std::clamp<std::uint64_t>(left, 1, limits.max_connections);
}

[[noreturn]] void fail(const std::string& host, std::uint16_t port, const error_code& error) {
  std::string why = error.message();
  if (error == asio::error::address_in_use) why = "the port is in use by another process";
  throw std::runtime_error("cannot listen on " + host + ":" + std::to_string(port) + ": " + why);
}

}  // namespace

Listener::Listener(const std::string& host, std::uint16_t port, const Limits& limits,
                   const std::vector<std::unique_ptr<Shard>>& shards)
    : limits_(limits),
      shards_(shards),
      acceptor_(shards.front()->io()),
      retry_timer_(shards.front()->io()),
      counter_(max_connections(limits), limits.max_connections_per_address) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) fail(host, port, error);
  const tcp::endpoint endpoint(address, port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(static_cast<int>(limits.listen_backlog), error);
  if (!error) port_ = acceptor_.local_endpoint(error).port();
  if (error) fail(host, port, error);
}

void Listener::start() {
  asio::post(shards_.front()->io(), [this] { accept(); });
}

void Listener::release(const asio::ip::address& address) {
  asio::dispatch(shards_.front()->io(), [this, address] {
    counter_.release(address);
    if (!is_accepting_) accept();
  });
}

void Listener::close() {
  error_code ignored;  // it is being given up
  acceptor_.close(ignored);
  retry_timer_.cancel();
}

void Listener::accept() {
  if (is_accepting_ || !acceptor_.is_open() || counter_.is_full()) return;
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
  if (error || !counter_.admit(address)) return;  // closed with the socket
  try {
    apply_socket_options(socket.native_handle(), limits_);
  } catch (const std::system_error&) {
    return counter_.release(address);  // the peer is gone already
  }
  shards_[next_shard_]->adopt(std::move(socket), address);
  next_shard_ = (next_shard_ + 1) % shards_.size();
}

void Listener::retry_later() {
  retry_timer_.expires_after(kRetryAfter);
  retry_timer_.async_wait([this](const error_code& error) {
    if (!error) accept();
  });
}

}  // namespace troupe
