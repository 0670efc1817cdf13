// SPDX-License-Identifier: Apache-2.0
// A port for a server that can't be told to choose one itself.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace troupe::test {

// A loopback port that nothing listened on a moment ago.
inline std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound = ::bind(socket, place, size) == 0 && ::getsockname(socket, place, &size) == 0;
  ::close(socket);
  if (!is_bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

}  // namespace troupe::test
