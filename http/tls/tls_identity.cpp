// SPDX-License-Identifier: Apache-2.0
#include "http/tls/tls_identity.hpp"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "telemetry/regular_file.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Bytes = std::unique_ptr<BIO, Freed<BIO_free>>;

constexpr std::size_t kMaxFileBytes = 1 << 20;
// Of TLS 1.2; those of 1.3 are all good.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr std::string_view kProtocols = "\x08http/1.1";  // as ALPN writes its list

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw std::runtime_error(file.string() + ": " + why);
}

// Why OpenSSL did not do it, in its words.
std::string reason() {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text != nullptr ? text : "no reason given";
}

// A file's text, which may be a key: nothing of it stays in memory.
class SecretText {
 public:
  explicit SecretText(const fs::path& path) {
    const RegularFile file = open_regular_file(path);
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    errno = 0;
    size_ = std::fread(text_.data(), 1, text_.size(), file.get());
    if (std::ferror(file.get()) != 0) refuse(path, std::generic_category().message(errno));
    if (size_ > kMaxFileBytes) refuse(path, "expected a file of PEM, got more than 1 MiB");
  }
  ~SecretText() { OPENSSL_cleanse(text_.data(), size_); }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;

  std::string_view view() const { return std::string_view(text_).substr(0, size_); }

 private:
  std::string text_ = std::string(kMaxFileBytes + 1, '\0');
  std::size_t size_ = 0;
};

// As long as the text is there.
Bytes bytes_of(const SecretText& text) {
  Bytes bytes(BIO_new_mem_buf(text.view().data(), static_cast<int>(text.view().size())));
  if (!bytes) throw std::runtime_error("OpenSSL: no memory for a file");
  return bytes;
}

// Nobody is there to be asked for a passphrase.
int no_passphrase(char*, int, int, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

void use_certificate(SSL_CTX* context, const fs::path& file) {
  const SecretText text(file);
  const Bytes bytes = bytes_of(text);
  const Certificate certificate(PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr));
  if (!certificate) refuse(file, "expected a certificate in PEM (" + reason() + ")");
  if (SSL_CTX_use_certificate(context, certificate.get()) != 1)
    refuse(file, "this certificate can't be used (" + reason() + ")");
  while (Certificate issuer{PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, issuer.get()) != 1)
      refuse(file, "a certificate behind the first can't be used (" + reason() + ")");
    static_cast<void>(issuer.release());  // it is the context's now
  }
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
    refuse(file, "a certificate behind the first is broken (" + reason() + ")");
  ERR_clear_error();  // the end of the file
}

void use_key(SSL_CTX* context, const fs::path& file, const fs::path& certificate_file) {
  const SecretText text(file);
  const Bytes bytes = bytes_of(text);
  bool has_passphrase = false;
  const Key key(PEM_read_bio_PrivateKey(bytes.get(), nullptr, no_passphrase, &has_passphrase));
  if (has_passphrase) refuse(file, "expected a key without a passphrase");
  if (!key) refuse(file, "expected a private key in PEM (" + reason() + ")");
  if (X509_check_private_key(SSL_CTX_get0_certificate(context), key.get()) != 1)
    refuse(file, "this is not the key of the certificate in " + certificate_file.string());
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    refuse(file, "this key can't be used (" + reason() + ")");
}

// A client that speaks only HTTP/2 is told so in the handshake.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned num_offered, void*) {
  const auto* ours = reinterpret_cast<const unsigned char*>(kProtocols.data());
  unsigned char* common = nullptr;
  if (SSL_select_next_proto(&common, size, ours, kProtocols.size(), offered, num_offered) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = common;
  return SSL_TLSEXT_ERR_OK;
}

void set_protocol(SSL_CTX* context) {
  // An end without close_notify is one all the same: HTTP says itself how long a request is.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  // Else one read goes on through all records without data that a client sends.
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // clients keep tickets
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context, kCiphers) != 1)
    throw std::runtime_error("OpenSSL can't speak TLS as it should (" + reason() + ")");
}

TlsIdentity::TimePoint time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};  // no certificate that was parsed has such
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

}  // namespace

void TlsIdentity::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsIdentity::TlsIdentity(fs::path certificate, fs::path key)
    : certificate_(std::move(certificate)), key_(std::move(key)), context_(load()) {}

TlsIdentity::~TlsIdentity() = default;

void TlsIdentity::reload() {
  Context fresh = load();
  const std::lock_guard lock(mutex_);
  context_.swap(fresh);
}

TlsIdentity::Context TlsIdentity::load() const {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()));
  if (!context) throw std::runtime_error("OpenSSL can't speak TLS (" + reason() + ")");
  set_protocol(context.get());
  use_certificate(context.get(), certificate_);
  use_key(context.get(), key_, certificate_);
  return context;
}

TlsIdentity::TimePoint TlsIdentity::not_before() const {
  const std::lock_guard lock(mutex_);
  return time_of(X509_get0_notBefore(SSL_CTX_get0_certificate(context_.get())));
}

TlsIdentity::TimePoint TlsIdentity::not_after() const {
  const std::lock_guard lock(mutex_);
  return time_of(X509_get0_notAfter(SSL_CTX_get0_certificate(context_.get())));
}

std::unique_ptr<TlsSession> TlsIdentity::begin_session(int socket) const {
  const std::lock_guard lock(mutex_);
  return std::make_unique<TlsSession>(context_.get(), socket);
}

}  // namespace troupe
