// SPDX-License-Identifier: Apache-2.0
// How many connections there are, altogether and from each network, and whether
// one more may be let in. Pure bookkeeping; one thread at a time.
#pragma once

#include <cstdint>
#include <map>

#include <boost/asio/ip/address.hpp>

#include "http/limits.hpp"

namespace troupe {

// The network a client is in, as far as its address tells: what is counted and served as one where there are
// no keys. An IPv4 address is its own network. That of an IPv6 address is its first 64 bits, the
// rest 0: one subscriber has as many addresses in them as it likes. An IPv4 address
// mapped into IPv6 is that IPv4 address.
boost::asio::ip::address network_of(const boost::asio::ip::address& address);

struct ConnectionRoom {
  std::uint64_t max_connections = 0;
  std::uint64_t num_reserved = 0;  // beyond these, for probes
};

// The room is as the limits say, or less where the process may not open so many
// files. num_open: files it has open now.
ConnectionRoom connection_room(const Limits& limits, std::uint64_t max_descriptors, std::uint64_t num_open);

class ConnectionCounter {
 public:
  enum class Place : std::uint8_t {
    kNormal,
    kReserve,
    kCrowded,  // none; there is one as soon as a connection of the reserve leaves, any without a reserve
    kNone,
  };

  ConnectionCounter(ConnectionRoom room, std::uint64_t max_per_network);

  // Counts it, if there is a place. Loopback has no limit of its own.
  Place admit(const boost::asio::ip::address& address);
  void release(const boost::asio::ip::address& address, Place place);
  std::uint64_t total() const { return normal_.total + reserve_.total; }

 private:
  struct Share {
    std::uint64_t max_total = 0, max_per_network = 0;
    std::uint64_t total = 0;
    std::map<boost::asio::ip::address, std::uint64_t> per_network = {};

    bool is_full() const { return total >= max_total; }
    bool has_share(const boost::asio::ip::address& network) const;
    void add(const boost::asio::ip::address& network);
    void release(const boost::asio::ip::address& network);
  };

  Share normal_, reserve_;
};

}  // namespace troupe
