// SPDX-License-Identifier: Apache-2.0
#include "http/server/client_network.hpp"

#include <algorithm>

namespace troupe {

namespace ip = boost::asio::ip;

ip::address network_of(const ip::address& address) {
  if (!address.is_v6() || address.is_loopback()) return address;
  const ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, v6);
  constexpr std::size_t kNetworkBytes = 8;
  auto bytes = v6.to_bytes();
  std::fill(bytes.begin() + kNetworkBytes, bytes.end(), 0);
  return ip::address_v6(bytes);
}

}  // namespace troupe
