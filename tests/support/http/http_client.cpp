// SPDX-License-Identifier: Apache-2.0
#include "tests/support/http/http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

namespace troupe::test {
namespace {

class Socket {
 public:
  explicit Socket(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = 120, .tv_usec = 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(descriptor_);
      throw std::runtime_error("can't connect to port " + std::to_string(port));
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(descriptor_); }

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) throw std::runtime_error("send failed");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Empty at the end of the stream.
  std::string_view receive() {
    const auto received = ::recv(descriptor_, buffer_.data(), buffer_.size(), 0);
    if (received < 0) throw std::runtime_error("receive failed or timed out");
    return {buffer_.data(), static_cast<std::size_t>(received)};
  }

 private:
  int descriptor_;
  std::array<char, 16384> buffer_{};
};

std::string request_text(std::string_view method, std::string_view target, std::string_view body,
                         std::string_view more_headers) {
  std::string text(method);
  text += ' ';
  text += target;
  text += " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  text += more_headers;
  if (!body.empty())
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n";
  text += body;
  return text;
}

std::string joined_chunks(std::string_view body) {
  std::string joined;
  for (;;) {
    const auto line_end = body.find("\r\n");
    if (line_end == std::string_view::npos) throw std::runtime_error("chunked body was cut");
    const auto size = std::strtoul(std::string(body.substr(0, line_end)).c_str(), nullptr, 16);
    body.remove_prefix(line_end + 2);
    if (size == 0) return joined;
    if (body.size() < size + 2) throw std::runtime_error("chunked body was cut");
    joined += body.substr(0, size);
    body.remove_prefix(size + 2);
  }
}

HttpAnswer parse_answer(std::string_view raw) {
  const auto status_end = raw.find("\r\n");
  const auto head_end = raw.find("\r\n\r\n");
  if (head_end == std::string_view::npos || raw.size() < 12) throw std::runtime_error("no HTTP answer");
  HttpAnswer answer;
  answer.status = static_cast<unsigned>(std::atoi(std::string(raw.substr(9, 3)).c_str()));
  answer.headers = std::string(raw.substr(status_end + 2, head_end - status_end));
  const auto body = raw.substr(head_end + 4);
  const bool chunked = answer.headers.find("chunked") != std::string::npos;
  answer.body = chunked ? joined_chunks(body) : std::string(body);
  return answer;
}

HttpAnswer send_and_receive(std::uint16_t port, const std::string& request) {
  Socket socket(port);
  socket.send(request);
  std::string raw;
  for (auto bytes = socket.receive(); !bytes.empty(); bytes = socket.receive()) raw += bytes;
  return parse_answer(raw);
}

}  // namespace

HttpAnswer http_get(std::uint16_t port, std::string_view target) {
  return send_and_receive(port, request_text("GET", target, "", ""));
}

HttpAnswer http_post(std::uint16_t port, std::string_view target, std::string_view json,
                     std::string_view more_headers) {
  return send_and_receive(port, request_text("POST", target, json, more_headers));
}

HttpAnswer http_send(std::uint16_t port, std::string_view method, std::string_view target,
                     std::string_view more_headers) {
  return send_and_receive(port, request_text(method, target, "", more_headers));
}

std::vector<std::string> sse_payloads(std::string_view body) {
  std::vector<std::string> payloads;
  while (!body.empty()) {
    const auto end = body.find('\n');
    const auto line = body.substr(0, end);
    if (line.starts_with("data: ")) payloads.emplace_back(line.substr(6));
    if (end == std::string_view::npos) break;
    body.remove_prefix(end + 1);
  }
  return payloads;
}

void http_post_and_leave(std::uint16_t port, std::string_view target, std::string_view json,
                         const std::function<bool(std::string_view)>& stop, std::string_view more_headers) {
  Socket socket(port);
  socket.send(request_text("POST", target, json, more_headers));
  std::string raw;
  for (auto bytes = socket.receive(); !bytes.empty(); bytes = socket.receive()) {
    raw += bytes;
    if (stop(raw)) return;
  }
}

}  // namespace troupe::test
