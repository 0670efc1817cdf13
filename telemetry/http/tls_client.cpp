// SPDX-License-Identifier: Apache-2.0
#include "telemetry/http/tls_client.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <stdexcept>

#include <boost/asio/ip/address.hpp>

namespace troupe {
namespace {

// Of the last call of OpenSSL that failed.
std::string reason() {
  const char* text = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return text == nullptr ? "unknown" : text;
}

}  // namespace

void TlsContextDeleter::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsContext make_tls_client(const std::string& trusted_certificates) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1)
    throw std::runtime_error("no TLS: " + reason());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (trusted_certificates.empty()) {
    if (SSL_CTX_set_default_verify_paths(context.get()) != 1)
      throw std::runtime_error("the system's trusted certificates can't be read: " + reason());
  } else if (SSL_CTX_load_verify_locations(context.get(), trusted_certificates.c_str(), nullptr) != 1) {
    throw std::runtime_error("expected a PEM file of trusted certificates, got '" + trusted_certificates +
                             "': " + reason());
  }
  return context;
}

void expect_host(ssl_st* connection, const std::string& host) {
  boost::system::error_code is_no_address;
  boost::asio::ip::make_address(host, is_no_address);
  const bool is_name = static_cast<bool>(is_no_address);
  // A wildcard stands for one whole label. An address counts as a name here.
  SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool is_set = SSL_set1_host(connection, host.c_str()) == 1;
  // SSL_set_tlsext_host_name, whose cast our warnings refuse.
  const bool is_told = !is_name || SSL_ctrl(connection, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                            TLSEXT_NAMETYPE_host_name, const_cast<char*>(host.c_str())) == 1;
  if (!is_set || !is_told) throw std::runtime_error("no host for a TLS connection: " + host);
}

std::string certificate_problem(const ssl_st* connection) {
  const long verified = SSL_get_verify_result(connection);
  if (verified == X509_V_OK) return "";
  return std::string("the certificate is not trusted: ") + X509_verify_cert_error_string(verified);
}

}  // namespace troupe
