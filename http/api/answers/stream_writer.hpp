// SPDX-License-Identifier: Apache-2.0
// The events of one streamed answer as bytes, in the order of the calls:
//
//   begin -> delta* -> finish
//        \-> delta* -> error       instead of the rest
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "actors/request/generation_request.hpp"
#include "http/api/answers/error_response.hpp"
#include "http/wire/event_framer.hpp"

namespace troupe {

// Appends to a string; knows nothing of sockets. Events that are too long for
// that are taken after the call that wrote them, and before the next.
class StreamWriter {
 public:
  virtual ~StreamWriter() = default;

  // With several answers to one request: the next calls are about this one. begin() is
  // called for each; all but the last end with finish_choice().
  virtual void choose(std::uint32_t) {}
  virtual void finish_choice(std::string&, const Finished&) {}

  virtual void begin(std::string& out, const Usage& usage) = 0;
  virtual void delta(std::string& out, const TextDelta& delta) = 0;
  // The rest of the answer, and the end of the body.
  virtual void finish(std::string& out, const Finished& finished) = 0;
  // Ends the stream in place of finish().
  virtual void error(std::string& out, const HttpError& error) = 0;
  // A comment, which clients skip and which keeps proxies and TCP awake.
  virtual void heartbeat(std::string& out) = 0;
  // Belongs behind the bytes appended by the last call; absent: they were all.
  std::optional<LongEvent> take_long_event() { return std::exchange(long_event_, std::nullopt); }

 protected:
  std::optional<LongEvent> long_event_;
};

}  // namespace troupe
