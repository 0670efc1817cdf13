// SPDX-License-Identifier: Apache-2.0
#include "http/routing/trusted_hosts.hpp"

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "http/routing/key_digest.hpp"

using namespace troupe;

TEST_CASE("trusted hosts: loopback in every spelling, with and without a port") {
  const TrustedHosts hosts("127.0.0.1", {}, {});
  for (const std::string_view host :
       {"localhost", "LocalHost:8000", "localhost.", "api.localhost:1", "127.0.0.1", "127.0.0.1:65535",
        "127.9.8.7", "[::1]", "[::1]:8000", "[0:0:0:0:0:0:0:1]"}) {
    CAPTURE(host);
    CHECK(hosts.trusts_host(host));
  }
}

TEST_CASE("trusted hosts: nothing that a page could be called by") {
  const TrustedHosts hosts("127.0.0.1", {}, {});
  for (const std::string_view host : {"",
                                      "evil.example",
                                      "evil.example:8000",
                                      "localhost.evil.example",
                                      "evillocalhost",
                                      "127.0.0.1.evil.example",
                                      "128.0.0.1",
                                      "0.0.0.0",
                                      "10.0.0.1:8000",
                                      "[::2]",
                                      "[::]",
                                      "::1",
                                      "[::1",
                                      "[::1]x",
                                      "[127.0.0.1]",
                                      "localhost:x",
                                      "localhost:123456",
                                      "localhost:65536",
                                      "localhost:80:80",
                                      "local host",
                                      "localhost/",
                                      "user@localhost",
                                      ".localhost",
                                      "127.1",
                                      "0x7f.0.0.1",
                                      "2130706433"}) {
    CAPTURE(host);
    CHECK_FALSE(hosts.trusts_host(host));
  }
}

TEST_CASE("trusted hosts: names that are allowed, to the letter") {
  const TrustedHosts hosts("127.0.0.1", {"gpu-box", "192.168.1.5", "fd00::5"}, {});
  for (const std::string_view host :
       {"gpu-box", "GPU-BOX:8000", "192.168.1.5:8000", "[fd00::5]:8000", "[fd00:0::5]", "localhost"})
    CHECK(hosts.trusts_host(host));
  for (const std::string_view host : {"gpu-box.evil.example", "x.gpu-box", "192.168.1.50", "[fd00::6]"})
    CHECK_FALSE(hosts.trusts_host(host));
}

TEST_CASE("trusted hosts: what can be allowed") {
  for (const std::string_view host : {"a", "gpu-box.local", "10.0.0.1", "::1", "fd00::5"})
    CHECK(is_host(host));
  for (const std::string_view host : {"", "a:80", "[::1]", "http://a", "a b", "a\r\nb", "*", "a/b", "é"}) {
    CAPTURE(host);
    CHECK_FALSE(is_host(host));
  }
  for (const std::string_view origin : {"*", "null", "http://a", "https://chat.example:3000",
                                        "http://[::1]:80", "chrome-extension://abcdef", "tauri://localhost"})
    CHECK(is_origin(origin));
  for (const std::string_view origin :
       {"", "a", "http://", "http://a/", "http://a/b", "://a", "http://a\r\nX: y", "http://a b", "1http://a",
        "http://a:b", "http://a:65536"}) {
    CAPTURE(origin);
    CHECK_FALSE(is_origin(origin));
  }
}

TEST_CASE("trusted hosts: origins") {
  const TrustedHosts hosts("127.0.0.1", {}, {"https://chat.example", "null"});
  REQUIRE(hosts.allows_origin("https://chat.example"));
  CHECK(*hosts.allows_origin("https://chat.example") == "https://chat.example");
  CHECK(hosts.allows_origin("null"));
  for (const std::string_view origin :
       {"", "http://chat.example", "https://chat.example:1", "https://x.chat.example"})
    CHECK(!hosts.allows_origin(origin));
  CHECK(TrustedHosts("127.0.0.1", {}, {"*"}).allows_origin("http://a"));
  CHECK(TrustedHosts::is_same_origin("http://localhost:8000", "localhost:8000"));
  CHECK(TrustedHosts::is_same_origin("https://chat.example", "chat.example"));
  for (const std::string_view origin :
       {"http://localhost:3000", "http://localhost", "null", "", "http://", "localhost:8000"})
    CHECK_FALSE(TrustedHosts::is_same_origin(origin, "localhost:8000"));
  CHECK_FALSE(TrustedHosts::is_same_origin("http://", ""));
}

TEST_CASE("trusted hosts: the address listened on; where that is all of them any address, but no name") {
  const TrustedHosts one("192.168.1.5", {}, {}), all("0.0.0.0", {}, {}), all_v6("::", {}, {});
  CHECK(one.trusts_host("192.168.1.5:8000"));
  CHECK_FALSE(one.trusts_host("192.168.1.6:8000"));
  for (const auto* hosts : {&all, &all_v6}) {
    for (const std::string_view host : {"10.1.2.3:9464", "192.168.1.5", "[fd00::5]:9464", "localhost"})
      CHECK(hosts->trusts_host(host));
    for (const std::string_view host : {"evil.example:9464", "10.1.2.3.evil.example", "167772161", ""})
      CHECK_FALSE(hosts->trusts_host(host));
  }
}

TEST_CASE("trusted hosts: an allowed origin is what browsers send, however it was spelled") {
  for (const auto& [spelled, sent] :
       {std::pair<std::string, std::string>{"HTTPS://Chat.Example", "https://chat.example"},
        {"https://x:443", "https://x"},
        {"http://x:80", "http://x"},
        {"http://x:443", "http://x:443"},
        {"http://x:0080", "http://x"},
        {"http://x:", "http://x"},
        {"http://x:08080", "http://x:8080"},
        {"http://[::1]:3000", "http://[::1]:3000"},
        {"http://[FD00:0::5]:80", "http://[fd00::5]"},
        {"tauri://localhost", "tauri://localhost"},
        {"null", "null"},
        {"*", "*"}}) {
    CAPTURE(spelled);
    REQUIRE(is_origin(spelled));
    CHECK(normalized_origin(spelled) == sent);
    const TrustedHosts hosts("127.0.0.1", {}, {spelled});
    REQUIRE(hosts.allows_origin(sent));
    CHECK(*hosts.allows_origin(sent) == sent);
  }
}

TEST_CASE("key digest: equal for equal keys only") {
  CHECK(KeyDigest("secret") == KeyDigest(std::string_view("secret")));
  for (const char* other : {"", "secre", "secrett", "Secret"})
    CHECK_FALSE(KeyDigest("secret") == KeyDigest(other));
}
