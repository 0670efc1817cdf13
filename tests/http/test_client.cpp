// SPDX-License-Identifier: Apache-2.0
#include "tests/http/test_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace troupe::test {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::string TestResponse::field(std::string_view name) const {
  const std::size_t at = lower(head).find("\r\n" + lower(name) + ": ");
  if (at == std::string::npos) return {};
  const std::size_t start = at + name.size() + 4;
  return head.substr(start, head.find("\r\n", start) - start);
}

TestClient::TestClient(std::uint16_t port, int receive_buffer_bytes) {
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    throw std::runtime_error("cannot connect to the server under test");
  }
}

TestClient::~TestClient() { close(); }
TestClient::TestClient(TestClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), buffer_(std::move(other.buffer_)) {}

bool TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send_some(bytes);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string TestClient::read_some(std::chrono::milliseconds at_most) {
  if (!buffer_.empty()) return std::exchange(buffer_, {});
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  if (!holds_some() && ::poll(&waiting, 1, static_cast<int>(at_most.count())) <= 0) return {};
  std::array<char, 16384> bytes;
  const ssize_t size = receive_some(bytes);
  return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : std::string();
}

ssize_t TestClient::send_some(std::string_view bytes) {
  return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

ssize_t TestClient::receive_some(std::span<char> bytes) {
  return ::recv(socket_, bytes.data(), bytes.size(), 0);
}

bool TestClient::fill() {
  std::string kept = std::exchange(buffer_, {});
  const std::string more = read_some();
  buffer_ = std::move(kept) + more;
  return !more.empty();
}

std::string TestClient::read_until(std::string_view needle) {
  while (buffer_.find(needle) == std::string::npos && fill()) {
  }
  return std::exchange(buffer_, {});
}

std::string TestClient::read_to_end() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

TestResponse TestClient::read_response() {
  TestResponse response;
  std::size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos && fill()) {
  }
  if (end == std::string::npos) return response;
  response.head = buffer_.substr(0, end + 2);
  response.status = static_cast<unsigned>(std::stoul(response.head.substr(9, 3)));
  buffer_.erase(0, end + 4);
  if (lower(response.field("Transfer-Encoding")) == "chunked") {
    for (;;) {
      std::size_t line = std::string::npos;
      while ((line = buffer_.find("\r\n")) == std::string::npos && fill()) {
      }
      if (line == std::string::npos) return response;  // cut off
      const std::size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + size + 2 && fill()) {
      }
      response.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, std::min(buffer_.size(), line + 2 + size + 2));
      if (size == 0) return response;
    }
  }
  const std::string length = response.field("Content-Length");
  const std::size_t size = length.empty() ? 0 : std::stoul(length);
  while (buffer_.size() < size && fill()) {
  }
  response.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return response;
}

bool TestClient::is_at_end() {
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, 10000) <= 0) return false;
  char byte = 0;
  return ::recv(socket_, &byte, 1, MSG_PEEK) <= 0;
}

void TestClient::half_close() { ::shutdown(socket_, SHUT_WR); }

void TestClient::reset() {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close();
}

void TestClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

std::string get_request(std::string_view target, std::string_view more_fields) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more_fields) +
         "\r\n";
}

std::string post_request(std::string_view target, std::string_view body, std::string_view more_fields) {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + std::string(more_fields) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::vector<std::string> sse_data(std::string_view body) {
  std::vector<std::string> payloads;
  constexpr std::string_view kPrefix = "data: ";
  while (!body.empty()) {
    const std::size_t end = std::min(body.find('\n'), body.size());
    const std::string_view line = body.substr(0, end);
    if (line.starts_with(kPrefix)) payloads.emplace_back(line.substr(kPrefix.size()));
    body.remove_prefix(std::min(end + 1, body.size()));
  }
  return payloads;
}

}  // namespace troupe::test
