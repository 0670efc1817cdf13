// SPDX-License-Identifier: Apache-2.0
#include "http/server/shard.hpp"

#include <algorithm>
#include <exception>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "telemetry/log.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kLongestTick{250};
constexpr std::chrono::milliseconds kShortestTick{5};
constexpr std::uint64_t kTicksPerDeadline = 4;
// Events that come closer together than that are worth a second look before the thread sleeps.
constexpr std::chrono::milliseconds kDenseEvents{1};

// Fine enough for the shortest deadline, no finer.
std::chrono::milliseconds tick_period(const Limits& limits) {
  const std::uint64_t shortest =
      std::min({limits.header_timeout_ms, limits.body_timeout_ms, limits.idle_timeout_ms, limits.heartbeat_ms,
                limits.stall_timeout_ms, limits.linger_timeout_ms});
  return std::clamp(std::chrono::milliseconds(shortest / kTicksPerDeadline), kShortestTick, kLongestTick);
}

}  // namespace

Shard::Shard(Service& service, AnswersUnderWay& answers, DetachedAnswers& detached, OnClosed on_closed)
    : service_(service),
      answers_(answers),
      detached_(detached),
      on_closed_(std::move(on_closed)),
      io_(1),
      outbox_(std::make_shared<Outbox>([this] {
        service_.metrics().sse_wakeups.add();
        boost::asio::post(io_, [this] { on_bell(); });
      })),
      timer_(io_),
      tick_period_(tick_period(service.options().limits)) {}

Shard::~Shard() { stop(); }

void Shard::start() {
  boost::asio::post(io_, [this] { tick(); });
  thread_ = std::thread([this] { io_.run(); });
}

void Shard::adopt(boost::asio::ip::tcp::socket socket, boost::asio::ip::address address, Door door,
                  Door entrance) {
  boost::asio::dispatch(io_, [this, socket = std::move(socket), address, door, entrance]() mutable {
    std::shared_ptr<Connection> connection;
    try {
      connection = std::make_shared<Connection>(*this, std::move(socket), door, entrance);
    } catch (const std::exception& error) {  // memory for its TLS is short
      log(LogLevel::kWarning, "a connection is given up", {{"reason", error.what()}});
      return on_closed_(address, door);
    }
    if (is_small(door)) of_small_doors_.push_back(connection.get());
    connections_.emplace(connection.get(), Member{connection, address});
    service_.metrics().connections.add(1);
    connection->start();
  });
}

void Shard::drain() {
  boost::asio::post(io_, [this] { for_each([](Connection& connection) { connection.start_draining(); }); });
}

void Shard::abort_answers() {
  boost::asio::post(io_, [this] { for_each([](Connection& connection) { connection.abort_answer(); }); });
}

void Shard::stop() {
  outbox_->close();
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] {
    timer_.cancel();
    for_each([](Connection& connection) { connection.close(); });
    io_.stop();
  });
  thread_.join();
}

void Shard::flush_later(std::shared_ptr<Connection> connection) { dirty_.push_back(std::move(connection)); }

void Shard::close_quietest(Door door) {
  Connection* quietest = nullptr;
  for (Connection* connection : of_small_doors_) {
    if (connection->door() != door) continue;
    if (quietest == nullptr || connection->quiet_since() < quietest->quiet_since()) quietest = connection;
  }
  if (quietest != nullptr) quietest->close();
}

void Shard::forget(Connection* connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  service_.metrics().connections.add(-1);
  const auto address = found->second.address;
  const Door door = connection->door();
  std::erase(of_small_doors_, connection);
  connections_.erase(found);
  on_closed_(address, door);
}

void Shard::on_bell() {
  if (!outbox_->take(entries_)) return;
  for (auto& entry : entries_) {
    Connection* connection = entry.stream->connection();
    if (connection != nullptr) connection->on_event(*entry.stream, std::move(entry.event));
  }
  entries_.clear();
  // Written after all have been handled: what one connection got leaves at once.
  for (std::size_t i = 0; i < dirty_.size(); ++i) dirty_[i]->flush();
  dirty_.clear();
  // Events that came meanwhile are handled in another turn. Tokens milliseconds apart need none: it would
  // find nothing and cost a system call each. Dense tokens are joined by it into one write: hundreds of small
  // writes fill the socket's buffer, and the stream stands still until its client's delayed acknowledgement.
  const auto now = Connection::Clock::now();
  const bool are_dense = now - last_events_ < kDenseEvents;
  last_events_ = now;
  if (are_dense || !outbox_->arm()) boost::asio::post(io_, [this] { on_bell(); });
}

void Shard::tick() {
  const auto now = Connection::Clock::now();
  for_each([now](Connection& connection) { connection.check_deadlines(now); });
  detached_.tick(now);
  timer_.expires_after(tick_period_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) tick();
  });
}

// Visits may close connections, which removes them.
void Shard::for_each(const std::function<void(Connection&)>& visit) {
  std::vector<std::shared_ptr<Connection>> all;
  all.reserve(connections_.size());
  for (const auto& [key, member] : connections_) all.push_back(member.connection);
  for (const auto& connection : all) visit(*connection);
}

}  // namespace troupe
