// SPDX-License-Identifier: Apache-2.0
#include "bench/server/streams.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

namespace troupe::bench {

double cpu_seconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    throw std::runtime_error("can't read the server's CPU clock");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int open_stream(std::uint16_t port, int num_tokens) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("connect failed");
  const std::string body =
      R"({"model":"bench","stream":true,"ignore_eos":true,"temperature":0,"max_tokens":)" +
      std::to_string(num_tokens) + R"(,"messages":[{"role":"user","content":"Hello."}]})";
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  if (::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    throw std::runtime_error("send failed");
  return descriptor;
}

// Reads all streams to their end; the number of events seen.
long drain_streams(const std::vector<int>& streams) {
  const int poller = ::epoll_create1(EPOLL_CLOEXEC);
  for (const int stream : streams) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = stream}};
    ::epoll_ctl(poller, EPOLL_CTL_ADD, stream, &event);
  }
  std::array<epoll_event, 64> ready{};
  std::array<char, 65536> buffer{};
  long events = 0;
  auto open = streams.size();
  while (open > 0) {
    const int count = ::epoll_wait(poller, ready.data(), ready.size(), 20'000);
    if (count <= 0) throw std::runtime_error("streams stalled");
    for (int i = 0; i < count; ++i) {
      const int stream = ready[static_cast<std::size_t>(i)].data.fd;
      const auto got = ::recv(stream, buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        ::close(stream);
        --open;
        continue;
      }
      // Each event ends in an empty line; a split one is counted with its second half.
      for (ssize_t j = 0; j + 1 < got; ++j)
        events +=
            buffer[static_cast<std::size_t>(j)] == '\n' && buffer[static_cast<std::size_t>(j + 1)] == '\n';
    }
  }
  ::close(poller);
  return events;
}

}  // namespace troupe::bench
