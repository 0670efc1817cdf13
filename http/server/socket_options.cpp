// SPDX-License-Identifier: Apache-2.0
#include "http/server/socket_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace troupe {
namespace {

void set(int socket, int level, int option, std::uint64_t value) {
  const int number = static_cast<int>(value);
  if (::setsockopt(socket, level, option, &number, sizeof number) != 0) {
    throw std::system_error(errno, std::generic_category(), "setsockopt");
  }
}

}  // namespace

void apply_socket_options(int socket, const Limits& limits) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_SNDBUF, limits.send_buffer_bytes / 2);  // the kernel doubles it
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, limits.tcp_user_timeout_ms);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, limits.keepalive_idle_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, limits.keepalive_interval_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, limits.keepalive_probes);
}

}  // namespace troupe
