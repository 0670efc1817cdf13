// SPDX-License-Identifier: Apache-2.0
// How server-sent events are wrapped on the wire. Pure: appends to a string.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

// One chunk each, or as they are for clients of HTTP/1.0.
enum class EventFraming : std::uint8_t { kChunked, kPlain };

class EventFramer {
 public:
  explicit EventFramer(EventFraming framing) : framing_(framing) {}

  // Around one or more events; end() takes what begin() gave.
  std::size_t begin(std::string& out) const;
  void end(std::string& out, std::size_t start) const;
  void end_body(std::string& out) const;
  // A comment, which clients skip and which keeps proxies and TCP awake.
  void heartbeat(std::string& out) const;

 private:
  EventFraming framing_;
};

}  // namespace troupe
