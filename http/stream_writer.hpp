// SPDX-License-Identifier: Apache-2.0
// The events of one streamed answer as bytes, in the order of the calls:
//
//   begin -> delta* -> finish
//        \-> delta* -> error       instead of the rest
#pragma once

#include <string>

#include "actors/generation_request.hpp"
#include "http/error_response.hpp"

namespace troupe {

// Appends to a string; knows nothing of sockets.
class StreamWriter {
 public:
  virtual ~StreamWriter() = default;

  virtual void begin(std::string& out, const Usage& usage) = 0;
  virtual void delta(std::string& out, const TextDelta& delta) = 0;
  // The rest of the answer, and the end of the body.
  virtual void finish(std::string& out, const Finished& finished) = 0;
  // Ends the stream in place of finish().
  virtual void error(std::string& out, const HttpError& error) = 0;
  // A comment, which clients skip and which keeps proxies and TCP awake.
  virtual void heartbeat(std::string& out) = 0;
};

}  // namespace troupe
