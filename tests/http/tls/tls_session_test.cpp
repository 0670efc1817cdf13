// SPDX-License-Identifier: Apache-2.0
// A session on one end of a socket pair; the other end is OpenSSL's own client.
#include "http/tls/tls_session.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include <boost/asio/error.hpp>

#include "http/server/client_socket.hpp"
#include "tests/http/tls/test_identity.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int kMostRounds = 50;  // of a handshake; three do

// Both ends do not block.
class Pair {
 public:
  Pair() {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()) == 0);
    session_ = (*identity_)->begin_session(ends_[0]);
    client_.reset(SSL_new(context_.get()));
    SSL_set_fd(client_.get(), ends_[1]);
    SSL_set_connect_state(client_.get());
  }
  ~Pair() {
    for (const int end : ends_) ::close(end);
  }

  TlsSession& session() { return *session_; }
  SSL* client() { return client_.get(); }
  int session_end() const { return ends_[0]; }
  int client_end() const { return ends_[1]; }

  // What the session reads.
  std::string read() {
    const std::size_t size = session_->read_some(bytes_, error_);
    return {bytes_.data(), size};
  }
  // What the client reads; empty: nothing came.
  std::string client_reads() {
    const int size = SSL_read(client_.get(), bytes_.data(), static_cast<int>(bytes_.size()));
    return {bytes_.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }
  const boost::system::error_code& error() const { return error_; }

  void shake_hands() {
    bool is_client_done = false;
    for (int i = 0; i < kMostRounds && !(is_client_done && !session_->is_in_handshake()); ++i) {
      is_client_done = is_client_done || SSL_do_handshake(client_.get()) == 1;
      REQUIRE(read().empty());
    }
    REQUIRE(is_client_done);
    REQUIRE_FALSE(session_->is_in_handshake());
    REQUIRE(client_reads().empty());  // tickets
  }
  void send_at_client(std::string_view bytes) const {
    REQUIRE(::send(ends_[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  // What the session could read and has not.
  int num_waiting() const {
    int number = 0;
    REQUIRE(::ioctl(ends_[0], FIONREAD, &number) == 0);
    return number;
  }
  // Bytes that are no TLS, until the client has to read them away.
  std::size_t fill_to_client() const {
    const std::string bytes(4096, 'x');
    std::size_t filled = 0;
    for (const std::size_t size : {bytes.size(), std::size_t{1}}) {
      ssize_t sent = 0;
      while ((sent = ::send(ends_[0], bytes.data(), size, 0)) > 0) filled += static_cast<std::size_t>(sent);
    }
    return filled;
  }
  void take_at_client(std::size_t num_bytes) const {
    std::string bytes(num_bytes, '\0');
    while (num_bytes > 0) {
      const ssize_t size = ::recv(ends_[1], bytes.data(), num_bytes, 0);
      REQUIRE(size > 0);
      num_bytes -= static_cast<std::size_t>(size);
    }
  }

 private:
  TestIdentity identity_{TestCertificate("pair")};
  std::array<int, 2> ends_{};
  std::unique_ptr<TlsSession> session_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> client_{nullptr, SSL_free};
  std::array<char, TlsSession::kMaxRecordBytes> bytes_{};
  boost::system::error_code error_;
};

}  // namespace

TEST_CASE("TLS session: reads make the handshake, one record is read at a time") {
  Pair pair;
  CHECK(pair.session().is_in_handshake());
  CHECK(pair.read().empty());
  CHECK(is_would_block(pair.error()));
  CHECK_FALSE(pair.session().reads_wait_to_write());
  pair.shake_hands();
  CHECK_FALSE(pair.session().is_in_handshake());
  SSL_write(pair.client(), "one", 3);
  SSL_write(pair.client(), "two", 3);
  CHECK(pair.read() == "one");
  CHECK(pair.read() == "two");
  CHECK(pair.read().empty());
  CHECK(is_would_block(pair.error()));
}

TEST_CASE("TLS session: a flood of new keys is not taken in one read") {
  Pair pair;
  pair.shake_hands();
  constexpr int kNumKeys = 50;
  for (int i = 0; i < kNumKeys; ++i) {
    REQUIRE(SSL_key_update(pair.client(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
    REQUIRE(SSL_do_handshake(pair.client()) == 1);
  }
  SSL_write(pair.client(), "data", 4);
  for (int i = 0; i < kNumKeys; ++i) {
    const int before = pair.num_waiting();
    CHECK(pair.read().empty());
    CHECK(is_would_block(pair.error()));
    CHECK(before - pair.num_waiting() < 40);
  }
  CHECK(pair.read() == "data");
}

TEST_CASE("TLS session: a message in many records is not taken in one read") {
  Pair pair;
  std::string hello = "\x16\x03\x01";
  hello += std::string("\x00\x04\x01\x00\x3f\xff", 6);
  for (int i = 0; i < 8'000; ++i) hello += std::string("\x16\x03\x01\x00\x01x", 6);
  pair.send_at_client(hello);
  const int all = pair.num_waiting();
  CHECK(pair.read().empty());
  CHECK(is_would_block(pair.error()));
  CHECK(all - pair.num_waiting() == 32 * 1024);
  CHECK(pair.read().empty());
  CHECK(pair.num_waiting() == 0);
}

TEST_CASE("TLS session: a hello that claims to be huge is refused by its first bytes") {
  Pair pair;
  pair.send_at_client(std::string("\x16\x03\x01\x00\x05\x01\x02\x00\x00\x03", 10));
  CHECK(pair.read().empty());
  CHECK(pair.error() == boost::asio::error::message_size);
  CHECK(pair.session().is_in_handshake());
}

TEST_CASE("TLS session: a handshake whose answer does not fit waits to write") {
  Pair pair;
  SSL_do_handshake(pair.client());  // its first message
  const std::size_t filled = pair.fill_to_client();
  CHECK(pair.read().empty());
  CHECK(is_would_block(pair.error()));
  CHECK(pair.session().reads_wait_to_write());
  pair.take_at_client(filled);
  pair.shake_hands();
  CHECK_FALSE(pair.session().reads_wait_to_write());
}

TEST_CASE("TLS session: a write that was begun goes on from another place, with more behind it") {
  Pair pair;
  pair.shake_hands();
  std::string waiting(1'000'000, 'a');
  std::size_t num_sent = 0;
  boost::system::error_code error;
  while (!error) num_sent += pair.session().write_some(std::string_view(waiting).substr(num_sent), error);
  REQUIRE(is_would_block(error));
  CHECK_FALSE(pair.session().writes_wait_to_read());
  waiting += std::string(1000, 'b');
  std::string moved = waiting.substr(num_sent), received;
  while (received.size() < waiting.size()) {
    received += pair.client_reads();
    if (!moved.empty()) moved.erase(0, pair.session().write_some(moved, error));
  }
  CHECK(received == waiting);
}

TEST_CASE("TLS session: goodbye is said once the socket takes it") {
  Pair pair;
  pair.shake_hands();
  const std::size_t filled = pair.fill_to_client();
  CHECK_FALSE(pair.session().say_goodbye());
  CHECK_FALSE(pair.session().say_goodbye());
  pair.take_at_client(filled);
  CHECK(pair.session().say_goodbye());
  CHECK(pair.session().say_goodbye());
  CHECK(pair.client_reads().empty());
  CHECK(SSL_get_shutdown(pair.client()) == SSL_RECEIVED_SHUTDOWN);
}

TEST_CASE("TLS session: what came before a goodbye is read, then the end is") {
  Pair pair;
  pair.shake_hands();
  SSL_write(pair.client(), "last", 4);
  SSL_shutdown(pair.client());
  CHECK(pair.read() == "last");
  CHECK(pair.read().empty());
  CHECK(pair.error() == boost::asio::error::eof);
}

TEST_CASE("TLS session: an end without a goodbye is an end, and writing to it raises no signal") {
  Pair pair;
  pair.shake_hands();
  ::shutdown(pair.client_end(), SHUT_RDWR);
  CHECK(pair.read().empty());
  CHECK(pair.error() == boost::asio::error::eof);
  boost::system::error_code error;
  pair.session().write_some("late", error);
  CHECK(error);
  CHECK_FALSE(is_would_block(error));
}

TEST_CASE("TLS session: bytes that no key of its client made are refused, with an alert") {
  Pair pair;
  pair.shake_hands();
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  REQUIRE(::send(pair.client_end(), forged.data(), forged.size(), 0) == 37);
  CHECK(pair.read().empty());
  CHECK(pair.error());
  CHECK_FALSE(is_would_block(pair.error()));
  CHECK_FALSE(pair.session().is_in_handshake());
  CHECK(pair.session().say_goodbye());  // there is nothing to be said any more
  ERR_clear_error();
  CHECK(pair.client_reads().empty());
  CHECK(ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
}

TEST_CASE("TLS session: a client that speaks HTTP is told from one that speaks nothing known") {
  for (const auto& [bytes, is_http] :
       std::vector<std::pair<std::string, bool>>{{"GET / HTTP/1.1\r\n", true},
                                                 {"POST /v1/chat/completions HTTP/1.1\r\n", true},
                                                 {"HEAD / HTTP/1.1\r\n", true},
                                                 {"CONNECT host:1 HTTP/1.1\r\n", true},
                                                 {"SSH-2.0-client\r\n", false},
                                                 {std::string(20, '\0'), false}}) {
    Pair pair;
    ::send(pair.client_end(), bytes.data(), bytes.size(), 0);
    CHECK(pair.read().empty());
    CHECK(pair.session().is_in_handshake());
    CHECK(TlsSession::is_plain_http(pair.error()) == is_http);
  }
}
