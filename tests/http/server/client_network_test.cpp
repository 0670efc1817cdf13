// SPDX-License-Identifier: Apache-2.0
#include "http/server/client_network.hpp"

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
