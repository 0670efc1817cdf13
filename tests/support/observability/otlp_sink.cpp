// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/otlp_sink.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <utility>

namespace troupe::test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The value of a header; empty if it is not in the head.
std::string header_of(const std::string& head, const std::string& name) {
  const auto at = lower(head).find("\r\n" + lower(name) + ":");
  if (at == std::string::npos) return "";
  const auto begin = head.find_first_not_of(' ', at + name.size() + 3);
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::string gunzipped(std::string bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) throw std::runtime_error("no memory for gzip");
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::array<char, 16384> part{};
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(part.data(), part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_in > 0) throw std::runtime_error("the body is no gzip");
  return out;
}

std::vector<ReceivedSpan> spans_in(const std::string& head, const std::string& body) {
  const std::string plain = header_of(head, "Content-Encoding") == "gzip" ? gunzipped(body) : body;
  const std::string type = header_of(head, "Content-Type");
  if (type == "application/x-protobuf") return parse_protobuf_spans(plain);
  if (type == "application/json") return parse_spans(nlohmann::json::parse(plain));
  throw std::runtime_error("no type of OTLP: " + type);
}

}  // namespace

// A connection, closed in the end.
class OtlpSink::Stream {
 public:
  // context: null for plain HTTP.
  Stream(int connection, SSL_CTX* context) : connection_(connection) {
    if (!context) return;
    tls_ = SSL_new(context);
    SSL_set_fd(tls_, connection);
    is_open_ = SSL_accept(tls_) == 1;
  }
  ~Stream() {
    SSL_free(tls_);
    ::close(connection_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // False: there is no more.
  bool read_to(std::string& buffer) {
    if (!is_open_) return false;
    const auto size = static_cast<int>(bytes_.size());
    const auto received = tls_ ? SSL_read(tls_, bytes_.data(), size)
                               : static_cast<int>(::recv(connection_, bytes_.data(), bytes_.size(), 0));
    if (received > 0) buffer.append(bytes_.data(), static_cast<std::size_t>(received));
    return received > 0;
  }
  bool send_all(std::string_view bytes) {
    if (tls_) return SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size())) > 0;
    while (!bytes.empty()) {
      const auto sent = ::send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

 private:
  int connection_;
  SSL* tls_ = nullptr;
  bool is_open_ = true;
  std::array<char, 16384> bytes_{};
};

void OtlpSink::TlsContextDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

OtlpSink::OtlpSink(const CertificateFiles& certificate) : OtlpSink() {
  std::signal(SIGPIPE, SIG_IGN);  // SSL_write can't be told to do without
  const std::lock_guard lock(mutex_);
  tls_.reset(SSL_CTX_new(TLS_server_method()));
  if (!tls_ ||
      SSL_CTX_use_certificate_file(tls_.get(), certificate.certificate_path().c_str(), SSL_FILETYPE_PEM) !=
          1 ||
      SSL_CTX_use_PrivateKey_file(tls_.get(), certificate.key_path().c_str(), SSL_FILETYPE_PEM) != 1)
    throw std::runtime_error("the sink can't use its certificate");
}

OtlpSink::OtlpSink() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain_address = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, plain_address, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, plain_address, &size) != 0)
    throw std::runtime_error("the sink can't listen");
  port_ = ntohs(address.sin_port);
  accepter_ = std::thread([this] { accept(); });
}

OtlpSink::~OtlpSink() {
  is_over_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  accepter_.join();
  ::close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
  }
  for (auto& thread : threads_) thread.join();
}

void OtlpSink::answer_next(std::vector<SinkAnswer> answers) {
  const std::lock_guard lock(mutex_);
  next_.assign(answers.begin(), answers.end());
}

void OtlpSink::answer_otherwise(SinkAnswer answer) {
  const std::lock_guard lock(mutex_);
  otherwise_ = std::move(answer);
}

std::vector<ReceivedSpan> OtlpSink::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::size_t OtlpSink::num_requests() const {
  const std::lock_guard lock(mutex_);
  return num_requests_;
}

std::string OtlpSink::last_path() const {
  const std::lock_guard lock(mutex_);
  return last_.path;
}

std::string OtlpSink::last_header(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return header_of(last_.head, name);
}

std::string OtlpSink::url() const {
  return (tls_ ? "https" : "http") + std::string("://127.0.0.1:") + std::to_string(port_);
}

bool OtlpSink::wait_until(const std::function<bool(const std::vector<ReceivedSpan>&)>& is_enough) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return is_enough(spans_); });
}

bool OtlpSink::wait_for_requests(std::size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return num_requests_ >= count; });
}

void OtlpSink::accept() {
  for (;;) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0 || is_over_) {
      if (connection >= 0) ::close(connection);
      return;
    }
    ++num_connections_;
    const std::lock_guard lock(mutex_);
    open_.insert(connection);
    threads_.emplace_back([this, connection, context = tls_.get()] {
      Stream stream(connection, context);
      serve(stream);
      const std::lock_guard closing(mutex_);
      open_.erase(connection);
    });
  }
}

// Requests one after the other until the other side, or the sink, is done.
void OtlpSink::serve(Stream& stream) {
  std::string buffer;
  for (;;) {
    std::size_t head_end = buffer.find("\r\n\r\n");
    for (; head_end == std::string::npos; head_end = buffer.find("\r\n\r\n"))
      if (!stream.read_to(buffer)) return;
    Request request;
    request.head = buffer.substr(0, head_end + 2);
    request.path = buffer.substr(5, buffer.find(' ', 5) - 5);  // after "POST "
    const std::size_t length = std::stoul("0" + header_of(request.head, "Content-Length"));
    while (buffer.size() < head_end + 4 + length)
      if (!stream.read_to(buffer)) return;
    request.body = buffer.substr(head_end + 4, length);
    buffer.erase(0, head_end + 4 + length);
    if (!answer(stream, request)) return;
  }
}

// False: the connection is to be closed.
bool OtlpSink::answer(Stream& stream, const Request& request) {
  SinkAnswer answer;
  {
    const std::lock_guard lock(mutex_);
    answer = next_.empty() ? otherwise_ : next_.front();
    if (!next_.empty()) next_.pop_front();
    ++num_requests_;
    last_ = request;
    const bool is_taken = answer.status == 200 && !answer.says_nothing && !answer.hangs_up;
    if (is_taken) {
      const auto more = spans_in(request.head, request.body);
      spans_.insert(spans_.end(), more.begin(), more.end());
    }
  }
  changed_.notify_all();
  if (answer.hangs_up) return false;
  if (answer.says_nothing) return true;
  if (!answer.raw.empty()) return stream.send_all(answer.raw) && false;
  return stream.send_all(answer.before + "HTTP/1.1 " + std::to_string(answer.status) + " Status\r\n" +
                         answer.headers + "Content-Length: " + std::to_string(answer.body.size()) +
                         "\r\n\r\n" + answer.body + answer.after);
}

}  // namespace troupe::test
