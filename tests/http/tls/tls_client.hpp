// SPDX-License-Identifier: Apache-2.0
// A blocking client that speaks TLS, and trusts one certificate.
#pragma once

#include <memory>
#include <string>

#include "tests/http/test_client.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace troupe::test {

struct TlsClientOptions {
  std::string trusted = {};    // PEM; the server's certificate has to lead to it
  int version = 0;             // TLS1_1_VERSION and so on, and no other; 0: any
  std::string protocols = {};  // of ALPN, as the wire has them; empty: not said
  int receive_buffer_bytes = 0;
};

class TlsClient final : public TestClient {
 public:
  // Throws std::runtime_error with OpenSSL's reason if the handshake fails.
  TlsClient(std::uint16_t port, const TlsClientOptions& options);
  ~TlsClient() override;
  TlsClient(TlsClient&& other) noexcept = default;

  std::string server_name() const;  // of its certificate
  std::string version() const;      // "TLSv1.3"
  std::string protocol() const;     // by ALPN; empty: none
  // After the end of what could be read: the server had said that it is the end.
  bool was_told_of_end() const;
  // Not through the session: bytes of a record, or what is none.
  bool send_as_it_is(std::string_view bytes) { return TestClient::send_some(bytes) > 0; }
  // Tells the server that nothing follows; reading goes on.
  void say_goodbye();

 private:
  ssize_t send_some(std::string_view bytes) override;
  ssize_t receive_some(std::span<char> bytes) override;
  bool holds_some() override;

  struct Free {
    void operator()(ssl_ctx_st* context) const;
    void operator()(ssl_st* ssl) const;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::unique_ptr<ssl_st, Free> ssl_;
};

// The first thing that a client sends.
std::string client_hello();

}  // namespace troupe::test
