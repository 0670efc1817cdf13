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

#include "http/server/client_socket.hpp"
#include "http/server/client_stream.hpp"
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
