// SPDX-License-Identifier: Apache-2.0
#include "http/server/connection_counter.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace troupe;

namespace {

std::string network(const char* address) {
  return network_of(boost::asio::ip::make_address(address)).to_string();
}

}  // namespace

TEST_CASE("client network: an IPv4 address is one, wherever it is written") {
  CHECK(network("192.0.2.7") == "192.0.2.7");
  CHECK(network("::ffff:192.0.2.7") == "192.0.2.7");
  CHECK(network("192.0.2.7") != network("192.0.2.8"));
}

TEST_CASE("client network: IPv6 addresses of one /64 are one") {
  CHECK(network("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::");
  CHECK(network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::"));
  CHECK(network("2001:db8:1:2::1") != network("2001:db8:1:3::1"));
}

TEST_CASE("client network: loopback is itself") {
  CHECK(network("127.0.0.1") == "127.0.0.1");
  CHECK(network("::1") == "::1");
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
