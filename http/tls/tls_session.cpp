// SPDX-License-Identifier: Apache-2.0
#include "http/tls/tls_session.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

namespace troupe {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kMaxWriteBytes = TlsSession::kMaxRecordBytes;
// From the socket in one call: records without data (as TLS 1.2 has them where a client asks
// for new keys) are else taken as long as more of them come. More than the largest record.
constexpr std::size_t kMaxTakenBytes = 2 * TlsSession::kMaxRecordBytes;

int send_without_signal(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const int socket = static_cast<int>(BIO_get_fd(bio, nullptr));
  const auto sent = static_cast<int>(::send(socket, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL));
  if (sent <= 0 && BIO_sock_should_retry(sent) != 0) BIO_set_retry_write(bio);
  return sent;
}

}  // namespace

void TlsSession::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsSession::TlsSession(ssl_ctx_st* context, int socket) : ssl_(SSL_new(context)) {
  BIO* bio = ssl_ ? BIO_new(socket_method()) : nullptr;
  if (bio == nullptr || BIO_set_app_data(bio, this) != 1) {
    BIO_free(bio);
    throw std::runtime_error("OpenSSL: no memory for a session");
  }
  BIO_set_fd(bio, socket, BIO_NOCLOSE);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_accept_state(ssl_.get());
}

TlsSession::~TlsSession() = default;

// OpenSSL's sockets, but without the signal that writing to a client that left would raise,
// and with bounds on reading.
const BIO_METHOD* TlsSession::socket_method() {
  static const BIO_METHOD* const method = [] {
    const BIO_METHOD* socket = BIO_s_socket();
    BIO_METHOD* own = BIO_meth_new(BIO_TYPE_SOCKET, "socket within bounds");
    if (own == nullptr) throw std::runtime_error("OpenSSL: no memory for a kind of socket");
    BIO_meth_set_write(own, send_without_signal);
    BIO_meth_set_read(own, receive);
    BIO_meth_set_ctrl(own, BIO_meth_get_ctrl(socket));
    BIO_meth_set_create(own, BIO_meth_get_create(socket));
    BIO_meth_set_destroy(own, BIO_meth_get_destroy(socket));
    return own;
  }();
  return method;
}

// BIO's app data is the session.
int TlsSession::receive(bio_st* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  auto& self = *static_cast<TlsSession*>(BIO_get_app_data(bio));
  if (self.num_left_to_take_ == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const int socket = static_cast<int>(BIO_get_fd(bio, nullptr));
  errno = 0;
  const auto received = static_cast<int>(
      ::recv(socket, bytes, std::min(static_cast<std::size_t>(size), self.num_left_to_take_), 0));
  if (received == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (received < 0 && BIO_sock_should_retry(received) != 0) BIO_set_retry_read(bio);
  if (received <= 0) return received;
  self.num_left_to_take_ -= static_cast<std::size_t>(received);
  if (!self.is_established_ && !self.guard_.admits({bytes, static_cast<std::size_t>(received)},
                                                   SSL_version(self.ssl_.get()) != TLS1_2_VERSION)) {
    errno = EMSGSIZE;
    return -1;
  }
  return received;
}

std::size_t TlsSession::read_some(std::span<char> bytes, error_code& error) {
  ERR_clear_error();  // whatever this thread did before
  num_left_to_take_ = kMaxTakenBytes;
  std::size_t size = 0;
  const int result = SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &size);
  error = error_of(result);
  reads_wait_to_write_ = SSL_want_write(ssl_.get());
  return size;
}

std::size_t TlsSession::write_some(std::string_view bytes, error_code& error) {
  ERR_clear_error();
  num_left_to_take_ = kMaxTakenBytes;
  std::size_t size = 0;
  const int result =
      SSL_write_ex(ssl_.get(), bytes.data(), std::min<std::size_t>(bytes.size(), kMaxWriteBytes), &size);
  error = error_of(result);
  writes_wait_to_read_ = SSL_want_read(ssl_.get());
  return size;
}

error_code TlsSession::error_of(int result) {
  const int system_error = errno;
  if (!is_established_) is_established_ = SSL_is_init_finished(ssl_.get()) != 0;
  if (result > 0) return {};
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return asio::error::would_block;
    case SSL_ERROR_ZERO_RETURN: return asio::error::eof;
    case SSL_ERROR_SYSCALL:
      is_broken_ = true;
      if (system_error == 0) return asio::error::eof;
      return {system_error, boost::system::system_category()};
    default:
      is_broken_ = true;
      const auto reason = static_cast<int>(ERR_peek_error());
      return reason == 0 ? error_code(asio::error::connection_aborted)
                         : error_code(reason, asio::error::get_ssl_category());
  }
}

bool TlsSession::say_goodbye() {
  if (!is_established_ || is_broken_ || has_said_goodbye_) return true;
  ERR_clear_error();
  const int result = SSL_shutdown(ssl_.get());
  if (result < 0 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_WRITE) return false;
  has_said_goodbye_ = true;
  return true;
}

// A record is read in two steps, of which the first leaves nothing behind to be pending.
bool TlsSession::has_part_of_record() const {
  return SSL_has_pending(ssl_.get()) != 0 || std::string_view(SSL_rstate_string(ssl_.get())) == "RB";
}

bool TlsSession::is_plain_http(const error_code& error) {
  if (error.category() != asio::error::get_ssl_category()) return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST;
}

}  // namespace troupe
