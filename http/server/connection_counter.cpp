// SPDX-License-Identifier: Apache-2.0
#include "http/server/connection_counter.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr std::uint64_t kShareOfReserve = 4;          // of what is left, and of the reserve
constexpr std::uint64_t kFewestDescriptorsKept = 16;  // for everything else

}  // namespace

ConnectionRoom connection_room(const Limits& limits, std::uint64_t max_descriptors, std::uint64_t num_open) {
  const std::uint64_t num_kept =
      std::max(max_descriptors * (100 - limits.max_descriptor_percent) / 100, kFewestDescriptorsKept);
  const std::uint64_t num_used = num_open + num_kept;
  const std::uint64_t left = std::max<std::uint64_t>(max_descriptors, num_used + 2) - num_used;
  const std::uint64_t num_reserved =
      std::clamp<std::uint64_t>(left / kShareOfReserve, 1, limits.reserved_connections);
  return {.max_connections = std::min(left - num_reserved, limits.max_connections),
          .num_reserved = num_reserved};
}

ConnectionCounter::ConnectionCounter(ConnectionRoom room, std::uint64_t max_per_network)
    : normal_{.max_total = room.max_connections, .max_per_network = max_per_network},
      reserve_{.max_total = room.num_reserved,
               .max_per_network = std::max<std::uint64_t>(1, room.num_reserved / kShareOfReserve)} {}

ConnectionCounter::Place ConnectionCounter::admit(const boost::asio::ip::address& address) {
  const auto network = network_of(address);
  if (!normal_.is_full() && normal_.has_share(network)) {
    normal_.add(network);
    return Place::kNormal;
  }
  if (reserve_.max_total == 0) return normal_.has_share(network) ? Place::kCrowded : Place::kNone;
  if (!reserve_.has_share(network)) return Place::kNone;
  if (reserve_.is_full()) return Place::kCrowded;
  reserve_.add(network);
  return Place::kReserve;
}

void ConnectionCounter::release(const boost::asio::ip::address& address, Place place) {
  (place == Place::kReserve ? reserve_ : normal_).release(network_of(address));
}

bool ConnectionCounter::Share::has_share(const boost::asio::ip::address& network) const {
  const auto found = per_network.find(network);
  return network.is_loopback() || found == per_network.end() || found->second < max_per_network;
}

void ConnectionCounter::Share::add(const boost::asio::ip::address& network) {
  ++per_network[network];
  ++total;
}

void ConnectionCounter::Share::release(const boost::asio::ip::address& network) {
  const auto found = per_network.find(network);
  if (found == per_network.end()) return;
  --total;
  if (--found->second == 0) per_network.erase(found);
}

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
