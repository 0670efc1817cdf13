// SPDX-License-Identifier: Apache-2.0
// CPU time the server spends on one streamed token, everything included (actors,
// text, HTTP, system calls), with the network replaced by a no-op. The server is
// the real binary, the client counts events. Goal: at most 20 µs; an existing
// server with a tiny model was measured at 110–190 µs.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/http_client.hpp"
#include "tests/support/server_process.hpp"

using namespace troupe;

namespace {

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
  const std::string body = R"({"model":"bench","stream":true,"ignore_eos":true,"temperature":0,"max_tokens":)" +
                           std::to_string(num_tokens) + R"(,"messages":[{"role":"user","content":"Hello."}]})";
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  if (::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
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
      for (ssize_t j = 0; j + 1 < got; ++j) events += buffer[static_cast<std::size_t>(j)] == '\n' && buffer[static_cast<std::size_t>(j + 1)] == '\n';
    }
  }
  ::close(poller);
  return events;
}

struct Arm {
  const char* name;
  const char* iteration_us;
  std::vector<int> num_streams;
  int num_tokens;
};

void report(const Arm& arm) {
  const test::ServerProcess server({"--model", TROUPE_SOURCE_DIR "/models/demo", "--model-name", "bench", "--device",
                                    "noop", "--noop-iteration-us", arm.iteration_us, "--log-level", "warning",
                                    "--max-batch-sequences", "256"});
  for (const int num_streams : arm.num_streams) {
    const int rounds = num_streams < 8 ? 8 : 4;
    drain_streams({open_stream(server.port(), 50)});
    long events = 0;
    const double cpu_before = cpu_seconds(server.pid());
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> streams;
      for (int i = 0; i < num_streams; ++i) streams.push_back(open_stream(server.port(), arm.num_tokens));
      events += drain_streams(streams);
    }
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const long tokens = static_cast<long>(arm.num_tokens) * num_streams * rounds;
    const double cpu_us = (cpu_seconds(server.pid()) - cpu_before) * 1e6 / static_cast<double>(tokens);
    std::printf("%-10s %7d %8ld %8ld %8.2f %10.0f %10.2f   %.2f\n", arm.name, num_streams, tokens, events, wall,
                static_cast<double>(events) / wall, cpu_us, cpu_us / 20);
  }
}

}  // namespace

// Saturated: tokens come faster than a socket takes them, so events share
// writes. Paced: an iteration of 5 ms, as on a GPU, every event is a write.
int main() {
  std::printf("%-10s %7s %8s %8s %8s %10s %10s   %s\n", "arm", "streams", "tokens", "events", "wall s", "events/s",
              "CPU us/tok", "share of 20 us");
  report({.name = "saturated", .iteration_us = "0", .num_streams = {1, 8, 32, 64, 128}, .num_tokens = 1500});
  report({.name = "paced", .iteration_us = "5000", .num_streams = {1, 8, 32, 64, 128}, .num_tokens = 150});
  return 0;
}
