// SPDX-License-Identifier: Apache-2.0
// The network a client is in, as far as its address tells: what is counted and
// served as one where there are no keys.
#pragma once

#include <boost/asio/ip/address.hpp>

namespace troupe {

// An IPv4 address is its own network. That of an IPv6 address is its first 64 bits, the
// rest 0: one subscriber has as many addresses in them as it likes. An IPv4 address
// mapped into IPv6 is that IPv4 address.
boost::asio::ip::address network_of(const boost::asio::ip::address& address);

}  // namespace troupe
