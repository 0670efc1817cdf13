// SPDX-License-Identifier: Apache-2.0
#include "http/connection_counter.hpp"

namespace troupe {

bool ConnectionCounter::admit(const boost::asio::ip::address& address) {
  if (is_full()) return false;
  const auto found = per_address_.find(address);
  const std::uint64_t here = found == per_address_.end() ? 0 : found->second;
  if (here >= max_per_address_ && !address.is_loopback()) return false;
  ++per_address_[address];
  ++total_;
  return true;
}

void ConnectionCounter::release(const boost::asio::ip::address& address) {
  const auto found = per_address_.find(address);
  if (found == per_address_.end()) return;
  --total_;
  if (--found->second == 0) per_address_.erase(found);
}

}  // namespace troupe
