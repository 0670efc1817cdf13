// SPDX-License-Identifier: Apache-2.0
// How server-sent events are wrapped on the wire. Pure: appends to a string.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "http/api/answers/answer_json.hpp"

namespace troupe {

// One chunk each, or as they are for clients of HTTP/1.0.
enum class EventFraming : std::uint8_t { kChunked, kPlain };

// Events that are written in pieces; each piece is a chunk.
struct LongEvent {
  LongAnswer answer;
  EventFraming framing = EventFraming::kPlain;
  bool is_last = false;  // the end of the body follows
};

class EventFramer {
 public:
  explicit EventFramer(EventFraming framing) : framing_(framing) {}

  // Around any number of events; end() takes what begin() gave.
  std::size_t begin(std::string& out) const;
  void end(std::string& out, std::size_t start) const;
  void end_body(std::string& out) const;
  // In place of the two above, for events written through `json` since begin():
  // if they are long they leave the string and are returned. owner keeps alive
  // what they refer to.
  std::optional<LongEvent> end(std::string& out, std::size_t start, AnswerJson& json,
                               std::shared_ptr<const void> owner, bool is_last) const;
  // A comment, which clients skip and which keeps proxies and TCP awake.
  void heartbeat(std::string& out) const;

 private:
  EventFraming framing_;
};

}  // namespace troupe
