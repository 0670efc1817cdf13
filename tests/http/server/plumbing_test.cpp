// SPDX-License-Identifier: Apache-2.0
#include "http/server/outbox.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "http/server/client_stream.hpp"
#include "http/server/connection_counter.hpp"
#include "http/server/socket_options.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;

namespace {

TextDelta delta(std::string text) { return {.text = std::move(text), .usage = {}}; }

int option(int socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(socket, level, name, &value, &size) == 0);
  return value;
}

}  // namespace

TEST_CASE("outbox: the bell rings once, however much is put, until nothing is found") {
  int num_rings = 0;
  Outbox outbox([&] { ++num_rings; });
  for (int i = 0; i < 64; ++i) outbox.put({nullptr, delta("x")});
  CHECK(num_rings == 1);
  std::vector<Outbox::Entry> entries;
  CHECK(outbox.take(entries));
  CHECK(entries.size() == 64);
  outbox.put({nullptr, delta("y")});
  CHECK(num_rings == 1);  // the thread is awake and will look again
  CHECK(outbox.take(entries));
  CHECK(entries.size() == 1);
  CHECK(!outbox.take(entries));
  outbox.put({nullptr, delta("z")});
  CHECK(num_rings == 2);
}

TEST_CASE("outbox: a thread that handled all may sleep, and is woken by what comes next") {
  int num_rings = 0;
  Outbox outbox([&] { ++num_rings; });
  std::vector<Outbox::Entry> entries;
  outbox.put({nullptr, delta("x")});
  REQUIRE(outbox.take(entries));
  outbox.put({nullptr, delta("y")});
  CHECK(!outbox.arm());  // it has to look again, and needs no bell for that
  CHECK(num_rings == 1);
  REQUIRE(outbox.take(entries));
  CHECK(outbox.arm());
  outbox.put({nullptr, delta("z")});
  CHECK(num_rings == 2);
}

TEST_CASE("outbox: the bell is rung without the lock, which the woken thread takes, and close waits for it") {
  std::vector<Outbox::Entry> entries;
  std::atomic<bool> is_ringing = false, may_end = false, is_over = false;
  std::unique_ptr<Outbox> outbox;
  outbox = std::make_unique<Outbox>([&] {
    CHECK(outbox->take(entries));
    is_ringing = true;
    CHECK(test::eventually([&] { return may_end.load(); }));
    is_over = true;
  });
  std::thread engine([&] { outbox->put({nullptr, delta("x")}); });
  REQUIRE(test::eventually([&] { return is_ringing.load(); }));
  std::thread releasing([&] { may_end = true; });
  outbox->close();
  CHECK(is_over);
  engine.join();
  releasing.join();
  CHECK(entries.size() == 1);
}

TEST_CASE("outbox: once closed it drops what comes and stays silent") {
  int num_rings = 0;
  Outbox outbox([&] { ++num_rings; });
  outbox.close();
  outbox.put({nullptr, delta("x")});
  std::vector<Outbox::Entry> entries;
  CHECK(!outbox.take(entries));
  CHECK(num_rings == 0);
}

TEST_CASE("client stream: what is pending grows with deliveries and goes when the client took it") {
  const Metrics metrics("demo");
  auto outbox = std::make_shared<Outbox>([] {});
  auto stream = std::make_shared<ClientStream>(outbox, nullptr, Delivery::kEvents, metrics.sse_backlog);
  CHECK(stream->pending_bytes() == 0);
  stream->deliver(delta(std::string(5000, 'x')));
  const std::size_t first = stream->pending_bytes();
  CHECK(first >= 5000);
  stream->deliver(delta("y"));
  std::vector<Outbox::Entry> entries;
  outbox->take(entries);
  stream->handled(entries[0].event);
  CHECK(stream->take_all());  // so far behind that the engine may have paused
  CHECK(stream->pending_bytes() > 0);
  CHECK(stream->pending_bytes() < 1000);
  stream->handled(entries[1].event);
  CHECK(!stream->take_all());
  CHECK(stream->pending_bytes() == 0);
}

TEST_CASE("client stream: the backlog of all streams is what is pending, and goes with a stream") {
  const Metrics metrics("demo");
  const auto backlog = [&] {
    const std::string text = metrics.expose();
    const std::string name = "troupe_http_sse_backlog_bytes{model_name=\"demo\"} ";
    return std::stod(text.substr(text.find(name) + name.size()));
  };
  auto outbox = std::make_shared<Outbox>([] {});
  auto stream = std::make_shared<ClientStream>(outbox, nullptr, Delivery::kEvents, metrics.sse_backlog);
  auto other = std::make_shared<ClientStream>(outbox, nullptr, Delivery::kEvents, metrics.sse_backlog);
  stream->deliver(delta(std::string(5000, 'x')));
  other->deliver(delta("y"));
  CHECK(backlog() == stream->pending_bytes() + other->pending_bytes());
  std::vector<Outbox::Entry> entries;
  outbox->take(entries);
  stream->handled(entries[0].event);
  stream->take_all();
  CHECK(backlog() == other->pending_bytes());
  entries.clear();
  other.reset();  // its client never took the rest
  CHECK(backlog() == 0);
}

TEST_CASE("client stream: a whole answer is collected and only its end is told") {
  int num_rings = 0;
  auto outbox = std::make_shared<Outbox>([&] { ++num_rings; });
  const Metrics metrics("demo");
  auto stream = std::make_shared<ClientStream>(outbox, nullptr, Delivery::kWhole, metrics.sse_backlog);
  stream->deliver(Accepted{});
  stream->deliver(delta("a"));
  stream->deliver(delta("b"));
  CHECK(num_rings == 0);
  CHECK(stream->pending_bytes() == 0);  // nothing waits for the client
  stream->deliver(Finished{});
  CHECK(num_rings == 1);
  CHECK(joined(stream->take_answer()).text == "ab");
  outbox->close();  // drops the stream that waits in it
}

TEST_CASE("connection counter: total and per network, loopback exempt from the latter") {
  using boost::asio::ip::make_address;
  using Place = ConnectionCounter::Place;
  const auto a = make_address("10.0.0.1"), b = make_address("10.0.0.2"), home = make_address("127.0.0.1");
  ConnectionCounter counter({.max_connections = 5, .num_reserved = 0}, 2);
  CHECK(counter.admit(a) == Place::kNormal);
  CHECK(counter.admit(a) == Place::kNormal);
  CHECK(counter.admit(a) == Place::kNone);
  for (int i = 0; i < 3; ++i) CHECK(counter.admit(home) == Place::kNormal);
  CHECK(counter.admit(b) == Place::kCrowded);  // there is no reserve: anyone who leaves makes room
  CHECK(counter.admit(a) == Place::kNone);
  counter.release(a, Place::kNormal);
  CHECK(counter.admit(a) == Place::kNormal);
  for (int i = 0; i < 3; ++i) counter.release(home, Place::kNormal);
  counter.release(a, Place::kNormal);
  counter.release(a, Place::kNormal);
  CHECK(counter.total() == 0);
}

TEST_CASE("connection counter: of IPv6 a /64 is one network, and a mapped IPv4 address is itself") {
  using boost::asio::ip::make_address;
  using Place = ConnectionCounter::Place;
  ConnectionCounter counter({.max_connections = 100, .num_reserved = 0}, 2);
  CHECK(counter.admit(make_address("2001:db8:0:1::1")) == Place::kNormal);
  CHECK(counter.admit(make_address("2001:db8:0:1:ffff::2")) == Place::kNormal);
  CHECK(counter.admit(make_address("2001:db8:0:1::3")) == Place::kNone);
  CHECK(counter.admit(make_address("2001:db8:0:2::1")) == Place::kNormal);
  counter.release(make_address("2001:db8:0:1::9"), Place::kNormal);
  CHECK(counter.admit(make_address("2001:db8:0:1::3")) == Place::kNormal);
  CHECK(counter.admit(make_address("::ffff:10.0.0.1")) == Place::kNormal);
  CHECK(counter.admit(make_address("10.0.0.1")) == Place::kNormal);
  CHECK(counter.admit(make_address("::ffff:10.0.0.1")) == Place::kNone);
  CHECK(counter.admit(make_address("::ffff:10.0.0.2")) == Place::kNormal);
  for (int i = 0; i < 3; ++i) CHECK(counter.admit(make_address("::1")) == Place::kNormal);
}

TEST_CASE(
    "connection counter: beyond the most there is a reserve, of which no network has more than its share") {
  using boost::asio::ip::make_address;
  using Place = ConnectionCounter::Place;
  const auto a = make_address("10.0.0.1"), b = make_address("10.0.0.2"), home = make_address("127.0.0.1");
  ConnectionCounter counter({.max_connections = 2, .num_reserved = 4}, 1);
  CHECK(counter.admit(a) == Place::kNormal);
  CHECK(counter.admit(a) == Place::kReserve);  // beyond its share of the others
  CHECK(counter.admit(a) == Place::kNone);
  CHECK(counter.admit(b) == Place::kNormal);
  for (int i = 0; i < 3; ++i) CHECK(counter.admit(home) == Place::kReserve);
  CHECK(counter.admit(home) == Place::kCrowded);
  CHECK(counter.admit(a) == Place::kNone);
  CHECK(counter.total() == 6);
  counter.release(home, Place::kReserve);
  CHECK(counter.admit(home) == Place::kReserve);
  counter.release(b, Place::kNormal);
  CHECK(counter.admit(home) == Place::kNormal);
}

TEST_CASE("connection room: what the process may open, less what it needs for other things") {
  const Limits limits;
  const auto room = [&](std::uint64_t max_descriptors, std::uint64_t num_open) {
    return connection_room(limits, max_descriptors, num_open);
  };
  CHECK(room(1'048'576, 40).max_connections == limits.max_connections);
  CHECK(room(1'048'576, 40).num_reserved == limits.reserved_connections);
  CHECK(room(1024, 40).max_connections == 1024 - 102 - 40 - 16);
  CHECK(room(1024, 40).num_reserved == 16);
  CHECK(room(64, 30).max_connections == 64 - 16 - 30 - 4);
  CHECK(room(64, 30).num_reserved == 4);
  for (const std::uint64_t num_open : {0, 50, 64, 1000}) {
    CHECK(room(64, num_open).max_connections >= 1);
    CHECK(room(64, num_open).num_reserved >= 1);
  }
}

TEST_CASE("socket options: the kernel waits for as many probes as the table says") {
  // With a user timeout it does not count them: the first one that is lost behind that time ends the
  // connection.
  const Limits limits;
  CHECK(limits.tcp_user_timeout_ms >=
        1000 * (limits.keepalive_idle_s + limits.keepalive_probes * limits.keepalive_interval_s));
}

TEST_CASE("socket options: the kernel has what the table says") {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const Limits limits;
  apply_socket_options(socket, limits);
  CHECK(option(socket, IPPROTO_TCP, TCP_NODELAY) != 0);
  CHECK(option(socket, SOL_SOCKET, SO_SNDBUF) == static_cast<int>(limits.send_buffer_bytes));
  CHECK(option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT) == 15'000);
  CHECK(option(socket, SOL_SOCKET, SO_KEEPALIVE) != 0);
  CHECK(option(socket, IPPROTO_TCP, TCP_KEEPIDLE) == 5);
  CHECK(option(socket, IPPROTO_TCP, TCP_KEEPINTVL) == 3);
  CHECK(option(socket, IPPROTO_TCP, TCP_KEEPCNT) == 3);
  ::close(socket);
  CHECK_THROWS(apply_socket_options(-1, limits));
}
