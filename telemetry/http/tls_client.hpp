// SPDX-License-Identifier: Apache-2.0
// The client's side of TLS: certificates are verified, and so is the name in them.
#pragma once

#include <memory>
#include <string>

// OpenSSL's SSL and SSL_CTX.
struct ssl_st;
struct ssl_ctx_st;

namespace troupe {

struct TlsContextDeleter {
  void operator()(ssl_ctx_st* context) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, TlsContextDeleter>;

// trusted_certificates: a PEM file; empty: those that the system trusts. Throws
// std::runtime_error that names the file if it can't be used.
TlsContext make_tls_client(const std::string& trusted_certificates);

// Before the handshake: the certificate must be for this name or address, which
// the server is also told where it is a name. Throws std::runtime_error.
void expect_host(ssl_st* connection, const std::string& host);

// After a handshake that failed: what was wrong with the certificate; empty: nothing.
std::string certificate_problem(const ssl_st* connection);

}  // namespace troupe
