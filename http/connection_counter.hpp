// SPDX-License-Identifier: Apache-2.0
// How many connections there are, altogether and from each address, and
// whether one more may be let in. Pure bookkeeping; one thread at a time.
#pragma once

#include <cstdint>
#include <map>

#include <boost/asio/ip/address.hpp>

namespace troupe {

class ConnectionCounter {
 public:
  ConnectionCounter(std::uint64_t max_total, std::uint64_t max_per_address)
      : max_total_(max_total), max_per_address_(max_per_address) {}

  bool is_full() const { return total_ >= max_total_; }
  // Counts it if it may come in. Loopback has no limit of its own.
  bool admit(const boost::asio::ip::address& address);
  void release(const boost::asio::ip::address& address);
  std::uint64_t total() const { return total_; }

 private:
  std::uint64_t max_total_, max_per_address_;
  std::uint64_t total_ = 0;
  std::map<boost::asio::ip::address, std::uint64_t> per_address_;
};

}  // namespace troupe
