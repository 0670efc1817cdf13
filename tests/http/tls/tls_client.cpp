// SPDX-License-Identifier: Apache-2.0
#include "tests/http/tls/tls_client.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <stdexcept>

namespace troupe::test {
namespace {

[[noreturn]] void fail(const char* what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  throw std::runtime_error(std::string(what) + ": " + (reason != nullptr ? reason : "no reason"));
}

void trust(SSL_CTX* context, const std::string& pem) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bytes(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                  BIO_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr), X509_free);
  if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get()) != 1) fail("trust");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
}

}  // namespace

void TlsClient::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void TlsClient::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsClient::TlsClient(std::uint16_t port, const TlsClientOptions& options)
    : TestClient(port, options.receive_buffer_bytes), context_(SSL_CTX_new(TLS_client_method())) {
  ::signal(SIGPIPE, SIG_IGN);  // of a server that has gone
  const timeval at_most{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(socket(), SOL_SOCKET, SO_RCVTIMEO, &at_most, sizeof at_most);
  ERR_clear_error();
  trust(context_.get(), options.trusted);
  if (options.version != 0) {
    SSL_CTX_set_security_level(context_.get(), 0);  // else old ones are not even asked for
    SSL_CTX_set_min_proto_version(context_.get(), options.version);
    SSL_CTX_set_max_proto_version(context_.get(), options.version);
  }
  if (!options.protocols.empty())
    SSL_CTX_set_alpn_protos(context_.get(), reinterpret_cast<const unsigned char*>(options.protocols.data()),
                            static_cast<unsigned>(options.protocols.size()));
  ssl_.reset(SSL_new(context_.get()));
  X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), "127.0.0.1");
  SSL_set_fd(ssl_.get(), socket());
  if (SSL_connect(ssl_.get()) != 1) fail("handshake");
}

TlsClient::~TlsClient() = default;

std::string TlsClient::server_name() const {
  std::string name(64, '\0');
  X509* certificate = SSL_get0_peer_certificate(ssl_.get());
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(),
                                             static_cast<int>(name.size()));
  name.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return name;
}

std::string TlsClient::version() const { return SSL_get_version(ssl_.get()); }

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

bool TlsClient::was_told_of_end() const {
  return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
}

void TlsClient::say_goodbye() { SSL_shutdown(ssl_.get()); }

ssize_t TlsClient::send_some(std::string_view bytes) {
  ERR_clear_error();
  return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
}

ssize_t TlsClient::receive_some(std::span<char> bytes) {
  ERR_clear_error();
  return SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
}

bool TlsClient::holds_some() { return SSL_pending(ssl_.get()) > 0; }

std::string client_hello() {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
  BIO* const sent = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), sent);
  SSL_connect(ssl.get());  // and waits for an answer
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(sent, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace troupe::test
