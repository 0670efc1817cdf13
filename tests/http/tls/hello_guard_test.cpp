// SPDX-License-Identifier: Apache-2.0
#include "http/tls/hello_guard.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/http/tls/tls_client.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string record(char kind, const std::string& body) {
  return std::string{kind, 3, 1, static_cast<char>(body.size() >> 8U), static_cast<char>(body.size())} + body;
}
std::string handshake(const std::string& body) { return record(22, body); }
// The head of a hello that claims to be so long.
std::string head(std::size_t size) {
  return {1, static_cast<char>(size >> 16U), static_cast<char>(size >> 8U), static_cast<char>(size)};
}
const std::string kChangeCipherSpec = record(20, "\x01");

}  // namespace

TEST_CASE("hello guard: what a client sends is admitted, and a second hello") {
  HelloGuard guard;
  CHECK(guard.admits(client_hello(), true));
  CHECK(guard.admits(kChangeCipherSpec, true));
  CHECK(guard.admits(client_hello(), true));
  CHECK(guard.admits(record(23, std::string(300, '\xff')), true));
}

TEST_CASE("hello guard: a length over the limit is refused, in whatever pieces it comes") {
  const std::string most = head(HelloGuard::kMaxMessageBytes), more = head(HelloGuard::kMaxMessageBytes + 1);
  CHECK(HelloGuard().admits(handshake(most), true));
  CHECK_FALSE(HelloGuard().admits(handshake(more), true));
  CHECK_FALSE(HelloGuard().admits(handshake(more.substr(0, 1)) + handshake(more.substr(1)), true));
  HelloGuard bytewise;
  const std::string wire = handshake(more);
  for (std::size_t i = 0; i < wire.size(); ++i)
    CHECK(bytewise.admits(wire.substr(i, 1), true) == (i + 1 < wire.size()));
}

TEST_CASE("hello guard: a second hello is measured too, behind any part of the first") {
  const std::string first = head(3) + "abc", second = head(100'000);
  CHECK_FALSE(HelloGuard().admits(handshake(first + second), true));
  CHECK_FALSE(HelloGuard().admits(handshake(first) + handshake(second), true));
  CHECK_FALSE(HelloGuard().admits(handshake(first) + kChangeCipherSpec + handshake(second), true));
}

TEST_CASE("hello guard: what is ciphered or no TLS is not looked at") {
  const std::string more = handshake(head(100'000));
  CHECK(HelloGuard().admits(kChangeCipherSpec + more, false));
  CHECK(HelloGuard().admits(record(23, "x") + more, true));
  CHECK(HelloGuard().admits("GET / HTTP/1.1\r\n\r\n" + more, true));
}
